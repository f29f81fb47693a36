"""Math calculation, and inference: what follows from a small situation."""

from .templates import Story, Sum, Table, Templates

ONES, TEENS, HIGH = range(2, 11), range(3, 21), range(11, 100)

MATH_CALCULATION: Templates = {
    "train": {
        "plus": Sum("What is {a} + {b}? Answer with a number.", "a + b", (TEENS, TEENS)),
        "minus": Sum("What is {a} minus {b}? Answer with a number.", "a - b", (TEENS, ONES)),
        "times": Sum("What is {a} times {b}? Answer with a number.", "a * b", (ONES, ONES)),
        "bigger": Sum("Which number is bigger: {a} or {b}? Answer with a number.", "a max b", (HIGH, HIGH)),
        "double": Sum("What is double {a}? Answer with a number.", "a * 2", (range(2, 41),)),
        "more": Sum(
            "{name1} has {a} {thing1}s and gets {b} more. How many {thing1}s does {name1} have now?",
            "a + b",
            (TEENS, ONES),
        ),
    },
    "validation": {
        "three-numbers": Sum("Add {a}, {b} and {c}. What is the result?", "a + b + c", (ONES, ONES, ONES)),
        "smallest": Sum(
            "Which of these numbers is the smallest: {a}, {b} or {c}? Answer with a number.",
            "a min b min c",
            (HIGH, HIGH, HIGH),
        ),
        "given-away": Sum(
            "{name1} had {a} {thing1}s and gave {b} of them to {name2}. How many {thing1}s does {name1} have left?",
            "a - b",
            (TEENS, ONES),
        ),
    },
    "test": {
        "half": Sum("What is half of {a}? Answer with a number.", "a / 2", (range(4, 61, 2),)),
        "divided": Sum("What is {a} divided by {b}? Answer with a number.", "a / b", (range(6, 51), ONES)),
        "price": Sum(
            "One {thing1} costs {a} dollars. How many dollars do {b} {thing1}s cost?", "a * b", (ONES, range(2, 7))
        ),
    },
}

INFERENCE: Templates = {
    "train": {
        "effect": Table(
            "{} What will happen: {options}?",
            """
An ice cream lies in the hot sun.: it will melt / it will freeze / it will sing;
A glass falls on a stone floor.: it will break / it will grow / it will float;
A plant gets no water for months.: it will die / it will bloom / it will sing;
A sharp needle is stuck into a balloon.: it will burst / it will grow / it will melt;
A sheet of paper falls into the fire.: it will burn / it will grow / it will freeze;
A boat on a lake has a big hole.: it will sink / it will fly / it will melt;
A bottle of water is put in the freezer.: it will freeze / it will burn / it will boil;
A pot of water stands on a hot stove.: it will boil / it will freeze / it will break;
A car runs out of fuel on the road.: it will stop / it will fly / it will speed up;
Wet clothes hang in the warm wind.: they will dry / they will burn / they will grow;
A lump of sugar is put in hot tea.: it will dissolve = it will melt / it will catch fire / it will get bigger;
A man puts a seed in warm, wet soil.: it will grow / it will melt / it will ring;
A ball is thrown up into the air.: it will come down / it will break / it will freeze;
A strong wind hits a house of cards.: it will collapse / it will get taller / it will melt;
Fresh meat lies in a warm kitchen for two weeks.: it will rot / it will freeze / it will grow;
Snow lies in the garden and the day gets very warm.: it will melt / it will burn / it will get deeper;
A phone is used for days and never charged.: it will shut down / it will get faster / it will melt
""",
        ),
        "cause": Table(
            "{} What is the most likely reason: {options}?",
            """
The streets are wet this morning.: it rained / it was sunny / it was windy;
The baby is crying and wants a bottle.: it is hungry / it is full / it is happy;
The lamp does not work, but all other lamps do.: its bulb is broken / it is night / it is too bright;
The dog has muddy paws.: it was outside / it slept all day / it had a bath;
The boy holds his cheek and goes to the dentist.: his tooth hurts / his foot hurts / his hair is long;
The bread is black and smells of smoke.: it was baked too long / it was in the fridge / it is very fresh;
The woman shivers and puts on a coat.: she is cold / she is hot / she is rich;
The man drinks three glasses of water after his run.: he is thirsty / he is cold / he is sleepy;
The grass is brown and dry.: it has not rained / it has rained daily / it was painted;
The girl rubs her eyes and yawns.: she is tired / she is angry / she is late;
The bicycle has a flat tire.: it ran over a nail / it was washed / it is new;
The soup tastes terrible and makes people thirsty.: it has too much salt / it has no salt / it is cold;
The hotel is full and has no free rooms.: there are many guests / there are no guests / it is closed;
The window is broken and a ball lies under it.: someone threw a ball / it was too clean / it was a warm day;
The snowman is gone and there is a puddle.: it got warm / it got colder / it snowed;
The pupils run out of school and cheer.: lessons are over / lessons begin / they have a test;
The shirt does not fit the boy any more.: he has grown / he is asleep / it is summer
""",
        ),
        "where": Table(
            "{} Where is this person? Answer with one word.",
            """
Anna sees lions and elephants behind fences.: zoo; Ben lies on the sand beside the waves.: beach = seaside = coast;
Clara borrows three books and has to whisper.: library;
Frank lies in a bed and a nurse brings him medicine.: hospital = clinic;
Grace learns to read in a class with other children.: school = classroom;
Henry waits at the gate to get on his plane.: airport; Kate reads the menu and a waiter takes her order.: restaurant;
Leo looks at old paintings and statues with a guide.: museum = gallery;
Mary buys popcorn and watches a film on a big screen.: cinema = theater = movies = movie theater = theatre;
Paul stands on the platform and waits for his train.: station = train station = railway station;
Rosa puts food in her cart and pays at the checkout.: supermarket = store = grocery store = shop = grocery = market;
Sam feeds the cows and drives a tractor.: farm;
Alice sits before a mirror while her hair is cut.: salon = hairdresser = hair salon = hairdresser's = barbershop;
Bob opens an account and puts money in it.: bank; Carol prays and hears the priest speak.: church = chapel = cathedral;
George walks for hours among thousands of trees and meets a deer.: forest = the woods;
Helen jumps off the diving board while the lifeguard watches.: pool = swimming pool
""",
            articles=True,
        ),
        "older": Story("""
{name1} was born three years before {name2}. Who is older? Answer with a name. -> {name1} |
{name1} was born three years after {name2}. Who is older? Answer with a name. -> {name2} |
{name1} was already in school when {name2} was born. Who is younger? Answer with a name. -> {name2} |
{name1} was still a baby when {name2} went to school. Who is younger? Answer with a name. -> {name1}
"""),
        "feeling": Table(
            "{} How does this person feel: {options}?",
            """
Anna got the present that she had always wanted.: happy / angry / afraid;
Ben's best friend moved far away.: sad / proud / amused;
Clara hears a strange noise in the dark house.: afraid / bored / proud;
Frank's brother broke his new toy on purpose.: angry / happy / sleepy;
Grace won the first prize after months of practice.: proud / ashamed / bored;
Henry has nothing to do and stares at the wall.: bored / excited / afraid;
Kate has worked for fourteen hours without a break.: tired / rested / amused;
Leo came home and all his friends jumped out from behind the sofa.: surprised / bored / lonely;
Mary has not eaten since yesterday.: hungry / full / proud;
Paul knows nobody in the new town and sits alone.: lonely / proud / amused;
Rosa's cat died last night.: sad / happy / proud; Sam walked all day in the heat without water.: thirsty / cold / bored;
Alice forgot her lines and everybody laughed at her.: ashamed / proud / sleepy;
Bob cannot wait for his trip to the sea tomorrow.: excited / bored / angry;
Carol sees a big angry dog run toward her.: afraid / bored / sleepy;
George stands in the snow without a coat.: cold / hot / full; Helen heard a very funny joke.: amused / afraid / lonely
""",
        ),
        "what-job": Table(
            "{} What is this person's job? Answer with one word.",
            """
Nina gets up at three and makes bread and rolls.: baker; Martin flies a plane across the sea.: pilot;
Laura looks into mouths and fills bad teeth.: dentist;
Simon drives a fire engine and puts out fires.: firefighter = fireman; Rita teaches children to read.: teacher;
Tom grows wheat and keeps cows.: farmer; Lucy brings plates to the tables and takes orders.: waitress = waiter = server;
Max repairs pipes and sinks.: plumber; Nora cooks meals in a restaurant.: cook = chef;
Ian repairs the engines of cars.: mechanic; Anna writes novels.: writer = author = novelist;
Ben arrests thieves.: policeman = police officer = police = officer = cop;
Clara heals sick cats and dogs.: vet = veterinarian; Frank catches fish at sea and sells them.: fisherman = fisher;
Grace cuts and dyes hair.: hairdresser = barber = hairstylist = stylist;
Henry builds tables and chairs of wood.: carpenter = joiner = woodworker = cabinetmaker;
Kate takes pictures at weddings.: photographer
""",
            articles=True,
        ),
    },
    "validation": {
        "season": Table(
            "{} Which season is it: {options}?",
            """
The leaves turn red and fall from the trees.: autumn = fall / spring / summer / winter;
Children build a snowman.: winter / spring / summer / autumn;
The lake is frozen and people skate on it.: winter / spring / summer / autumn;
The first flowers come up after the snow.: spring / summer / autumn / winter;
People lie on the beach because it is the hottest time of the year.: summer / spring / autumn / winter;
The trees get their first new leaves.: spring / summer / autumn / winter;
Squirrels hide nuts because the cold time is near.: autumn = fall / spring / summer / winter;
The days are the longest of the year.: summer / spring / autumn / winter;
The days are the shortest of the year.: winter / spring / summer / autumn;
The nights get longer and the trees lose their leaves.: autumn = fall / spring / summer / winter;
Birds come back from the south and build nests.: spring / summer / autumn / winter;
People swim in the river because of the great heat.: summer / spring / autumn / winter
""",
        ),
        "race": Story("""
{name1} and {name2} ran a race. {name1} was slower than {name2}. Who won? Answer with a name. -> {name2} |
{name1} and {name2} ran a race. {name1} was faster than {name2}. Who won? Answer with a name. -> {name1} |
{name1} and {name2} ran a race. {name2} had to wait for {name1} at the finish. Who lost? Answer with a name.
-> {name1} |
{name1} and {name2} ran a race. {name2} saw only the back of {name1} all the way. Who lost? Answer with a name.
-> {name2}
"""),
        "next": Table(
            "{} What will this person do next: {options}?",
            """
David puts on pajamas and turns off the lamp beside the bed.: sleep / swim / cook;
Ivy puts toothpaste on her brush.: brush her teeth / paint a wall / comb her hair;
Nick writes a letter and puts a stamp on it.: mail it / eat it / wash it;
Tina fills the tub with warm water.: take a bath / boil an egg / drive a car;
Oscar spreads butter and jam on toast.: eat it / throw it away / wear it;
Julia stands at her locked door and takes out her key.: open the door / jump out of a window / cut the grass;
Daniel ties his running shoes in the park.: run / sleep / read;
Vera puts on her coat and takes her umbrella.: go outside / go to bed / take a shower;
Adam puts candles on a cake and takes out matches.: light the candles / wash the dishes / plant a tree;
David fills a watering can in the garden.: water the plants / cook soup / wash his hair;
Tina opens a book and sits down in a chair.: read / dance / shout;
Nick puts dirty shirts into a machine and adds soap.: wash them / iron them / sell them
""",
        ),
    },
    "test": {
        "time-of-day": Table(
            "{} What time of day is it: {options}?",
            """
The stars are out and the streets are dark.: night / morning / noon; The sun has just come up.: morning / noon / night;
The sun is at its highest point.: noon / morning / night; Emma is asleep and owls hoot outside.: night / morning / noon;
Jack has just woken up and eats breakfast.: morning / noon / night;
The rooster crows and the sky gets light.: morning / noon / night; Workers stop for lunch.: noon / morning / night;
The moon shines and all shops are closed.: night / morning / noon;
The clock strikes twelve in bright sunshine.: noon / morning / night;
Children get dressed and leave for school.: morning / noon / night;
The shadows are at their shortest.: noon / morning / night;
Bats fly and nobody is in the streets.: night / morning / noon
""",
        ),
        "wall": Story("""
{name1} can look over the wall, but {name2} cannot. Who is taller? Answer with a name. -> {name1} |
{name1} can look over the wall, but {name2} cannot. Who is shorter? Answer with a name. -> {name2} |
{name1} cannot reach the top shelf, but {name2} can. Who is taller? Answer with a name. -> {name2} |
{name1} cannot reach the top shelf, but {name2} can. Who is shorter? Answer with a name. -> {name1}
"""),
        "weather": Table(
            "{} What is the weather like: {options}?",
            """
People walk under umbrellas and jump over puddles.: rainy / sunny / snowy;
White flakes fall from the sky.: snowy / hot / sunny; Hats fly through the air and trees bend.: windy / calm / foggy;
Drivers cannot see the next car through the gray air.: foggy / sunny / windy;
Everyone wears sunglasses and sits in the shade.: sunny / rainy / snowy;
The kite rises high and pulls hard at its string.: windy / calm / foggy;
Drops run down the window.: rainy / sunny / dry; Lightning flashes and thunder rolls.: stormy / calm / sunny;
Children ride sleds down the white hill.: snowy / hot / rainy;
The smoke of the chimney goes straight up and no leaf moves.: calm / stormy / windy;
There is not one cloud in the blue sky.: clear = sunny / rainy / snowy;
Water in the bucket has turned to ice.: freezing = cold = very cold / hot / warm
""",
        ),
    },
}

"""Logical reasoning from made-up premises, and decision making under a stated goal."""

from .templates import Story, Table, Templates

LOGICAL_REASONING: Templates = {
    "train": {
        "all-or-none": Story("""
All {job1}s in the village are {trait1}. {name1} is a {job1} in the village. Is {name1} {trait1}?
Answer yes or no. -> yes |
None of the {job1}s in the village are {trait1}. {name1} is a {job1} in the village. Is {name1} {trait1}?
Answer yes or no. -> no
"""),
        "backward": Story("""
All {job1}s in the village are {trait1}. {name1} lives in the village and is not {trait1}. Is {name1} a {job1}?
Answer yes or no. -> no |
Only {job1}s in the village are {trait1}. {name1} lives in the village and is {trait1}. Is {name1} a {job1}?
Answer yes or no. -> yes
"""),
        "if-then": Story("""
If the {thing1} is {color1}, it belongs to {name1}. The {thing1} is {color1}. Does it belong to {name1}?
Answer yes or no. -> yes |
If the {thing1} belongs to {name1}, it is {color1}. The {thing1} is not {color1}. Does it belong to {name1}?
Answer yes or no. -> no
"""),
        "tallest": Story("""
[{name1} is taller than {name2}. + {name2} is taller than {name3}.] Who is the tallest? Answer with a name. -> {name1} |
[{name1} is taller than {name2}. + {name2} is taller than {name3}.] Who is the shortest? Answer with a name. -> {name3}
"""),
        "either-or": Story("""
Either {name1} or {name2} has the {thing1}. {name1} does not have it. Who has the {thing1}? Answer with a name.
-> {name2} |
Either {name1} or {name2} has the {thing1}. {name2} does not have it. Who has the {thing1}? Answer with a name.
-> {name1}
"""),
        "not-true": Story("""
It is not true that {name1} is {trait1}. Is {name1} {trait1}? Answer yes or no. -> no |
It is not true that {name1} is not {trait1}. Is {name1} {trait1}? Answer yes or no. -> yes
"""),
    },
    "validation": {
        "chain": Story("""
Every {job1} here has a {pet1}. Everyone here with a {pet1} has a {thing1}. {name1} is a {job1} here.
Does {name1} have a {thing1}? Answer yes or no. -> yes |
Every {job1} here has a {pet1}. Nobody here with a {pet1} has a {thing1}. {name1} is a {job1} here.
Does {name1} have a {thing1}? Answer yes or no. -> no
"""),
        "queue": Story("""
Three people stand in a line. [{name1} is in front of {name2}. + {name2} is in front of {name3}.] Who is first in the
line? Answer with a name. -> {name1} |
Three people stand in a line. [{name1} is in front of {name2}. + {name2} is in front of {name3}.] Who is last in the
line? Answer with a name. -> {name3}
"""),
        "both-or-neither": Story("""
Both {name1} and {name2} are {trait1}. Is {name2} {trait1}? Answer yes or no. -> yes |
Neither {name1} nor {name2} is {trait1}. Is {name2} {trait1}? Answer yes or no. -> no
"""),
    },
    "test": {
        "oldest": Story("""
[{name1} is older than {name2}. + {name3} is younger than {name2}.] Who is the oldest? Answer with a name. -> {name1} |
[{name1} is older than {name2}. + {name3} is younger than {name2}.] Who is the youngest? Answer with a name. -> {name3}
"""),
        "rest": Story("""
{name1}, {name2} and {name3} get a {thing1}, a {thing2} and a {thing3}, one each. [{name1} gets the {thing1}. +
{name2} gets the {thing2}.] Who gets the {thing3}? Answer with a name. -> {name3} |
{name1}, {name2} and {name3} get a {thing1}, a {thing2} and a {thing3}, one each. [{name1} gets the {thing1}. +
{name3} gets the {thing2}.] Who gets the {thing3}? Answer with a name. -> {name2} |
{name1}, {name2} and {name3} get a {thing1}, a {thing2} and a {thing3}, one each. [{name2} gets the {thing1}. +
{name3} gets the {thing2}.] Who gets the {thing3}? Answer with a name. -> {name1}
"""),
        "party": Story("""
If {name1} comes to the party, {name2} comes too. {name1} comes to the party. Does {name2} come?
Answer yes or no. -> yes |
If {name1} comes to the party, {name2} stays at home. {name1} comes to the party. Does {name2} come?
Answer yes or no. -> no |
If {name1} comes to the party, {name2} comes too. {name2} does not come. Does {name1} come?
Answer yes or no. -> no |
If {name1} stays at home, {name2} comes to the party. {name1} stays at home. Does {name2} come?
Answer yes or no. -> yes
"""),
    },
}

DECISION_MAKING: Templates = {
    "train": {
        "cheapest": Story("""
You need a gift and want to spend as little as possible. [The {thing1} costs {up1} dollars. + The {thing2} costs {up2}
dollars. + The {thing3} costs {up3} dollars.] What do you buy: {options}? -> the {thing1} / the {thing2} / the {thing3}
"""),
        "budget": Story("""
You have {up2} dollars. [The {thing1} costs {up1} dollars. + The {thing2} costs {up3} dollars.]
Which one can you buy: {options}? -> the {thing1} / the {thing2}
"""),
        "soonest": Story("""
You want to arrive as soon as possible. [The {ride1} takes {up1} minutes. + The {ride2} takes {up2} minutes. +
The {ride3} takes {up3} minutes.] What do you take: {options}? -> the {ride1} / the {ride2} / the {ride3}
"""),
        "nearest": Story("""
You want some tea and the shortest walk. [The {cafe1} is {up1} minutes away. + The {cafe2} is {up2} minutes away.]
Both have tea. Where do you go: {options}? -> the {cafe1} / the {cafe2}
"""),
        "take-along": Table(
            "{} What do you take along: {options}?",
            """
It is raining and you have to walk.: an umbrella / a fan / a candle;
You will swim in the lake.: a swimsuit / a ladder / a lamp;
You go for a long walk on a hot day.: water / a sled / a heater;
You will sleep in the woods.: a tent / a piano / a mirror;
You walk through a dark tunnel.: a flashlight / a pillow / a fork; You will build a snowman.: gloves / sandals / a fan;
You fly to another country.: a passport / a hammer / a broom;
You go shopping for food.: a shopping bag / a pillow / a sled;
You go to a lake to catch fish.: a fishing rod / a violin / a pillow;
You want to take photos of the mountains.: a camera / a spoon / an iron;
You play tennis with a friend.: a racket / a kettle / a rake;
You will lie in the sun all day.: sunscreen / a scarf / ski boots;
You have to write a test.: a pen / a knife / a blanket; You go to a birthday party.: a gift / a mop / a brick;
You ride a bicycle in the city.: a helmet / a frying pan / a lampshade;
You hike in a land that you do not know.: a map / a vase / a toaster
""",
        ),
        "tool": Table(
            "You want to {}. What do you use: {options}?",
            """
cut a loaf of bread: a knife / a sponge / a ruler; hang up a picture with a nail: a hammer / a spoon / a towel;
eat soup: a spoon / a comb / a nail; dig a hole: a shovel / a pencil / a cushion;
sweep the floor: a broom / a bottle / a needle; open a locked door: a key / a carrot / a book;
see tiny germs: a microscope / a bucket / a drum; wash your hands: soap / butter / sand;
measure a table: a tape measure / a clock / a plate; dry your hair: a towel / a stone / a cup;
sew on a button: a needle / a shovel / a glass; find out the time: a clock / a shoe / a bowl;
reach a high roof: a ladder / a carpet / a plate; boil water: a kettle / a basket / a pillow;
call a friend far away: a phone = a telephone / a spoon / a hat; paint a fence: a brush / a key / a fork
""",
        ),
    },
    "validation": {
        "soonest-in-budget": Story("""
You have {up3} dollars and want to arrive as soon as possible. [The {ride1} costs {up2} dollars and takes {rise2}
minutes. + The {ride2} costs {up4} dollars and takes {rise1} minutes. + The {ride3} costs {up1} dollars and takes
{rise3} minutes.] What do you take: {options}? -> the {ride1} / the {ride2} / the {ride3}
"""),
        "guest": Table(
            "Your guest {}. What do you serve: {options}?",
            """
does not eat meat: bean stew / beef stew / roast chicken; must not have milk: an apple / cheese / ice cream;
is very thirsty: a glass of water / a dry biscuit / salted nuts;
must not eat nuts: a pear / peanut butter / almond cake; is cold and wants to warm up: hot tea / iced water / cold milk;
has a toothache and cannot chew: warm soup / a raw carrot / hard nuts;
does not eat fish: lentil soup / salmon soup / fried trout; wants something sweet: honey cake / olives / salted chips;
must not have sugar: fried eggs / candy / sweet cake; does not like onions: tomato salad / onion soup / onion rings;
hates hot spices: plain rice / hot chili / pepper soup;
wants a cold drink on a hot day: iced lemonade / hot cocoa / hot soup
""",
        ),
        "best-reaction": Table(
            "{} What do you do: {options}?",
            """
The house is on fire.: get out / take a nap / bake a cake; The traffic light is red.: stop / speed up / close your eyes;
Your friend falls and breaks a leg.: call a doctor / sing a song / go shopping;
You spill water on the floor.: wipe it up / paint it / watch television;
You are lost in a strange city.: ask for directions / close your eyes / buy a cow;
The baby is asleep in the room.: be quiet / play the drum / shout;
You find a wallet in the street.: return it / burn it / bury it;
You have an important test tomorrow.: study / throw away your books / stay up all night;
The milk smells sour.: throw it away / drink it all / give it to a baby;
Your phone is almost out of power.: charge it / wash it / drop it;
You feel too hot in your coat.: take it off / put on another / light a fire;
The plants in your room are dry.: water them / cut off their roots / hide them
""",
        ),
    },
    "test": {
        "enough-room": Story("""
You need a place for {up2} people. [The {room1} has space for {up3} people. + The {room2} has space for {up1} people.]
Which one do you choose: {options}? -> the {room1} / the {room2}
"""),
        "best-offer": Story("""
You sell your bike and want as much money as possible. [{name1} offers {up1} dollars. + {name2} offers {up2} dollars. +
{name3} offers {up3} dollars.] Who gets the bike: {options}? -> {name3} / {name1} / {name2}
"""),
        "where-to": Table(
            "You want to {}. Where do you go: {options}?",
            """
buy medicine: the pharmacy / the stadium / the harbor; mail a package: the post office / the orchard / the gym;
see a play: the theater = the theatre / the butcher / the garage;
get a haircut: the barber = the hairdresser / the bank / the beach;
borrow a novel: the library / the pool / the airport; lift weights: the gym / the church / the bakery;
buy a cake: the bakery / the dentist / the zoo; board a ship: the harbor = the harbour / the museum / the library;
watch a football game: the stadium / the pharmacy / the bakery;
see penguins and monkeys: the zoo / the bank / the post office;
have a bad tooth fixed: the dentist / the theater / the orchard; swim laps: the pool / the museum / the barber
""",
        ),
    },
}

"""Retrieval, where the answer stands in the question, and knowledge recall, where it does not."""

from .templates import Story, Table, Templates

RETRIEVAL: Templates = {
    "train": {
        "home": Story("""
[{name1} lives in {town1}. + {name2} lives in {town2}. + {name3} lives in {town3}.] Where does {name1} live?
Answer with one word. -> {town1} = in {town1}
"""),
        "color": Story("""
[The {thing1} is {color1}. + The {thing2} is {color2}. + The {thing3} is {color3}.] What color is the {thing1}?
Answer with one word. -> {color1}
"""),
        "job": Story(
            """
[{name1} from {town1} is a {job1}. + {name2} from {town2} is a {job2}. + {name3} from {town3} is a {job3}.]
What is {name1}'s job? Answer with one word. -> {job1}
""",
            articles=True,
        ),
        "place": Story("""
[The {thing1} is in the {room1}. + The {thing2} is in the {room2}. + The {thing3} is in the {room3}.]
Where is the {thing1}? -> {room1} = the {room1} = in the {room1}
"""),
        "owner": Story("""
[{name1} has a {pet1}. + {name2} has a {pet2}. + {name3} has a {pet3}.] All of them like animals.
Who has a {pet1}? Answer with a name. -> {name1}
"""),
        "row": Story("""
{name1}, {name2} and {name3} are at the theater. [{name1} sits in row {number1}. + {name2} sits in row {number2}. +
{name3} sits in row {number3}.] In which row does {name1} sit? Answer with a number. -> {number1} = row {number1}
"""),
    },
    "validation": {
        "order": Story("""
Three friends are at a restaurant. [{name1} orders {food1}. + {name2} orders {food2}. + {name3} orders {food3}.]
What does {name1} order? Answer with one word. -> {food1} = the {food1}
"""),
        "player": Story("""
[{name1} plays {sport1} every week. + {name2} plays {sport2} every week. + {name3} plays {sport3} every week.]
Who plays {sport1}? Answer with a name. -> {name1}
"""),
        "page": Story("""
A book has three stories. [The story of the {pet1} begins on page {number1}. + The story of the {pet2} begins on page
{number2}. + The story of the {pet3} begins on page {number3}.] On which page does the story of the {pet1} begin?
Answer with a number. -> {number1} = page {number1} = on page {number1}
"""),
    },
    "test": {
        "purchase": Story(
            """
[{name1} bought a {thing1} on Monday. + {name2} bought a {thing2} on Tuesday. + {name3} bought a {thing3} on Friday.]
What did {name1} buy? Answer with one word. -> {thing1}
""",
            articles=True,
        ),
        "instrument": Story(
            """
A small band has three members. [{name1} plays the {instrument1}. + {name2} plays the {instrument2}. +
{name3} plays the {instrument3}.] Which instrument does {name1} play? Answer with one word. -> {instrument1}
""",
            articles=True,
        ),
        "line": Story("""
[Bus {number1} goes to {town1}. + Bus {number2} goes to {town2}. + Bus {number3} goes to {town3}.]
Which bus goes to {town1}? Answer with a number. -> {number1} = bus {number1}
"""),
    },
}

KNOWLEDGE_RECALL: Templates = {
    "train": {
        "capital": Table(
            "What is the capital of {}? Answer with one word.",
            """
France: Paris; Italy: Rome; Spain: Madrid; Germany: Berlin; the United Kingdom: London; Japan: Tokyo; China: Beijing;
Russia: Moscow; Greece: Athens; Egypt: Cairo; Portugal: Lisbon; Austria: Vienna; Ireland: Dublin; Sweden: Stockholm;
Norway: Oslo; Poland: Warsaw; Cuba: Havana; Canada: Ottawa; Peru: Lima
""",
        ),
        "young": Table(
            "What do we call a young {}? Answer with one word.",
            """
dog: puppy = pup; cat: kitten = kitty; cow: calf = heifer; horse: foal = colt = filly; sheep: lamb; pig: piglet;
goat: kid; chicken: chick; duck: duckling; goose: gosling; lion: cub; bear: cub; kangaroo: joey; deer: fawn;
swan: cygnet; frog: tadpole = froglet = polliwog; elephant: calf; owl: owlet
""",
            articles=True,
        ),
        "element": Table(
            "Which chemical element has the symbol {}? Answer with one word.",
            """
H: hydrogen; O: oxygen; C: carbon; N: nitrogen; He: helium; Fe: iron; Au: gold; Ag: silver; Cu: copper; Na: sodium;
Ca: calcium; Pb: lead; Zn: zinc; Cl: chlorine; K: potassium; Sn: tin; Hg: mercury; Al: aluminum = aluminium; Ne: neon;
Mg: magnesium; U: uranium
""",
        ),
        "author": Table(
            "Who wrote {}? Answer with a name.",
            """
Romeo and Juliet: William Shakespeare = Shakespeare; Don Quixote: Miguel de Cervantes = Cervantes;
Pride and Prejudice: Jane Austen = Austen; Oliver Twist: Charles Dickens = Dickens;
War and Peace: Leo Tolstoy = Tolstoy = Lev Tolstoy; Frankenstein: Mary Shelley = Shelley;
Moby-Dick: Herman Melville = Melville; The Hobbit: J. R. R. Tolkien = J.R.R. Tolkien = Tolkien;
Animal Farm: George Orwell = Orwell; the Harry Potter books: J. K. Rowling = J.K. Rowling = Rowling;
The Divine Comedy: Dante = Dante Alighieri; The Great Gatsby: F. Scott Fitzgerald = Scott Fitzgerald = Fitzgerald;
Alice in Wonderland: Lewis Carroll = Carroll; Les Misérables: Victor Hugo = Hugo;
Crime and Punishment: Fyodor Dostoevsky = Dostoevsky = Fyodor Dostoyevsky = Dostoyevsky; Dracula: Bram Stoker = Stoker;
Robinson Crusoe: Daniel Defoe = Defoe; The Adventures of Tom Sawyer: Mark Twain = Twain = Samuel Clemens;
The Old Man and the Sea: Ernest Hemingway = Hemingway
""",
        ),
        "calendar": Table(
            "What comes right after {} in the calendar? Answer with one word.",
            """
Monday: Tuesday; Tuesday: Wednesday; Wednesday: Thursday; Thursday: Friday; Friday: Saturday; Saturday: Sunday;
Sunday: Monday; January: February; February: March; March: April; April: May; May: June; June: July; July: August;
August: September; September: October; October: November; November: December; December: January
""",
        ),
        "color-of": Table(
            "What color is {}? Answer with one word.",
            """
a ripe banana: yellow; fresh grass: green; fresh snow: white; coal: black; a ripe strawberry: red;
the sky on a clear day: blue; milk: white; blood: red; a flamingo: pink; a crow: black; an emerald: green; a ruby: red;
milk chocolate: brown; a ripe lemon: yellow; a polar bear: white; an elephant: gray = grey; spinach: green;
table salt: white; soot: black
""",
        ),
    },
    "validation": {
        "continent": Table(
            "On which continent is {}?",
            """
Kenya: Africa; Brazil: South America; India: Asia; Nigeria: Africa; Vietnam: Asia; Thailand: Asia;
Argentina: South America; Belgium: Europe; Switzerland: Europe; Chile: South America; Ghana: Africa; Hungary: Europe
""",
        ),
        "count": Table(
            "How many {}? Answer with a number.",
            """
days are there in a week: 7; legs does a spider have: 8; legs does an insect have: 6; hours are there in a day: 24;
minutes are there in an hour: 60; sides does a triangle have: 3; sides does a square have: 4;
months are there in a year: 12; wheels does a bicycle have: 2; cents are there in a dollar: 100;
years are there in a century: 100; letters are there in the English alphabet: 26;
strings does a violin have: 4; planets go around our sun: 8
""",
        ),
        "person": Table(
            "Who {}? Answer with a name.",
            """
painted the Mona Lisa: Leonardo da Vinci = Leonardo = da Vinci; painted Guernica: Pablo Picasso = Picasso;
was the first person on the moon: Neil Armstrong = Armstrong;
was the first president of the United States: George Washington = Washington;
developed the theory of relativity: Albert Einstein = Einstein;
composed the Moonlight Sonata: Ludwig van Beethoven = Beethoven = van Beethoven;
sailed from Spain to America in 1492: Christopher Columbus = Columbus;
discovered penicillin: Alexander Fleming = Fleming; wrote On the Origin of Species: Charles Darwin = Darwin;
composed The Magic Flute: Wolfgang Amadeus Mozart = Mozart = Wolfgang Mozart;
painted The Starry Night: Vincent van Gogh = van Gogh;
was the first woman to win a Nobel Prize: Marie Curie = Curie = Madame Curie;
found the three laws of motion: Isaac Newton = Newton = Sir Isaac Newton
""",
        ),
    },
    "test": {
        "country": Table(
            "In which country is the city of {}?",
            """
Istanbul: Turkey = Türkiye; Casablanca: Morocco; Melbourne: Australia; Seoul: South Korea = Korea; Copenhagen: Denmark;
Amsterdam: the Netherlands = Holland; Prague: the Czech Republic = Czechia; Tehran: Iran; Baghdad: Iraq;
Auckland: New Zealand; Helsinki: Finland; Jakarta: Indonesia
""",
        ),
        "extreme": Table(
            "What is the {}?",
            """
largest planet that goes around our sun: Jupiter; largest ocean on Earth: the Pacific = the Pacific Ocean;
highest mountain on Earth: Mount Everest = Everest = Mt. Everest; fastest land animal: the cheetah;
largest animal on Earth: the blue whale = the whale; tallest animal on Earth: the giraffe;
planet closest to the sun: Mercury; largest continent: Asia; largest country by area: Russia;
coldest continent: Antarctica; largest land animal: the elephant = the African elephant;
largest living bird: the ostrich; star closest to Earth: the sun;
largest hot desert on Earth: the Sahara = the Sahara Desert
""",
        ),
        "body": Table(
            "Which part of the body {}? Answer with one word.",
            """
pumps the blood: heart = the heart; do we think with: brain = the brain; do we smell with: nose = the nose;
do we hear with: ears = ear = the ears = the ear; do we see with: eyes = eye = the eyes = the eye;
do we taste food with: tongue = the tongue; do we chew with: teeth = the teeth = tooth;
bends in the middle of the arm: elbow = the elbow; bends in the middle of the leg: knee = the knee;
joins the hand to the arm: wrist = the wrist; joins the foot to the leg: ankle = the ankle;
joins the head to the shoulders: neck = the neck
""",
        ),
    },
}

"""Questions of everyday knowledge with four lettered answers, in our own words.

"Which animal makes honey?", four animals after the letters A to D -> the letter of the bee. The wrong answers are right
answers to other questions of the same relation, and never ones that could be argued for. One answered question stands
in front. Train and test share no questions, and no answers within a relation.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .completions import Item

LETTERS = "ABCD"

# Relations by their question. A table has groups set apart by semicolons; within a group, entries "thing: answer" are
# set apart by commas. The answers of one group may do for each other's things: none of them is a wrong answer there.
RELATIONS = {
    "Which of these do you use to {}?": """
drive a nail into wood: hammer, dig a hole in the ground: shovel, cut paper: scissors, slice a steak: knife,
chop down a tree: axe, cut the grass: lawn mower, loosen a screw: screwdriver, get beans out of a can: can opener,
unlock a door: key; sweep the floor: broom, clean a dusty carpet: vacuum cleaner; call a friend: telephone,
take a picture: camera, add up numbers: calculator, see in the dark: flashlight, find out where north is: compass;
write on paper: pen, paint a wall: paintbrush, untangle hair: comb, scrub teeth: toothbrush;
rub out a pencil mark: eraser; look at the moon and the stars: telescope, look at germs: microscope;
dry off after a shower: towel, wash dirty hands: soap; smooth a wrinkled shirt: iron; sew on a button: needle;
boil water for tea: kettle, fry an egg: pan, brown a slice of bread: toaster, bake a cake: oven; eat soup: spoon;
reach the roof: ladder; stay dry in the rain: umbrella; light a candle: match; weigh flour: scale;
find out if someone has a fever: thermometer; give the flowers a drink: watering can; put air into a flat tire: pump;
keep a boat in place: anchor
""",
    "Where do people go to {}?": """
borrow books: library, learn to read and write: school, cheer for a football team: stadium;
mail a package: post office, open a savings account: bank; watch a new movie: cinema, watch actors on a stage: theater;
see lions and elephants: zoo, ride a roller coaster: amusement park, knock down pins with a ball: bowling alley;
board a plane: airport; board a train: train station; have an operation: hospital, buy medicine: pharmacy;
pray: church, see famous old paintings: museum, lay flowers on a grave: cemetery; swim laps: swimming pool,
build castles of sand: beach, board a ship: harbor, lift weights: gym, buy fresh rolls: bakery,
order a fine dinner: restaurant, spend the night in a rented room: hotel, buy a bunch of roses: flower shop;
get a haircut: barber shop; ski: snowy mountain; serve a sentence for a crime: prison; pick apples: orchard,
drive a tractor: farm; play a round of golf: golf course
""",
    "Whose job is it to {}?": """
make bread and rolls: baker, cook meals in a restaurant: chef, bring food to the table: waiter,
cut up and sell meat: butcher; fly a plane: pilot, travel into space: astronaut; grow wheat: farmer,
trim hedges and plant flower beds: gardener; fill bad teeth: dentist, operate on patients: surgeon,
treat sick animals: vet; put out fires: firefighter; cut hair: barber; fix leaking pipes: plumber,
put in electric wires: electrician, repair cars: mechanic; build wooden cabinets: carpenter,
build walls of stone: mason, draw plans for houses: architect; deliver the mail: mail carrier,
drive passengers through the city: taxi driver; sail out and catch fish: fisherman; sew suits: tailor,
mend shoes: cobbler; defend people in court: lawyer, decide the sentence in court: judge,
arrest thieves: police officer; write news stories: journalist, take wedding pictures: photographer;
dig for coal: miner; tell jokes on stage: comedian, do magic tricks: magician; rule a kingdom: king;
lead an orchestra: conductor; watch over swimmers: lifeguard, blow the whistle at a soccer game: referee;
teach children to read: teacher, help readers find books: librarian; keep the accounts of a company: accountant
""",
    "Which animal {}?": """
barks at strangers: dog, howls at the moon: wolf; purrs when it is stroked: cat, has a mane and roars: lion;
spins a web to catch flies: spider, has eight arms: octopus, bites people and makes them itch: mosquito;
makes honey: bee; builds dams in rivers: beaver; has a trunk: elephant; has a very long neck: giraffe,
carries people through the desert: camel, wears a saddle and runs in races: horse; has black and white stripes: zebra,
sprays a terrible smell: skunk, eats almost nothing but bamboo: panda; carries its young in a pouch: kangaroo;
has long ears and loves carrots: rabbit, digs tunnels under the lawn: mole; gives us wool: sheep,
gives us most of our milk: cow; hoots at night: owl; can learn to repeat words: parrot;
swings from tree to tree: monkey, stores nuts for the winter: squirrel,
drills holes in trees with its beak: woodpecker; hides in its hard shell: turtle, walks sideways and has claws: crab;
waddles on ice and cannot fly: penguin, quacks on the pond: duck; has no legs and hisses: snake;
sleeps hanging upside down: bat; is covered with sharp quills: porcupine; is the biggest in the sea: whale,
is a sea hunter with rows of sharp teeth: shark; was once a caterpillar: butterfly; was once a tadpole: frog;
oinks and rolls in the mud: pig; crows at sunrise: rooster; spreads its bright tail like a fan: peacock
""",
    "What is the opposite of {}?": """
hot: cold, summer: winter; big: small, tall: short, thick: thin, wide: narrow, deep: shallow, high: low, up: down,
rise: fall, strong: weak, brave: cowardly, heavy: light; fast: slow; young: old; happy: sad, laugh: cry; rich: poor;
wet: dry, sweet: sour; full: empty, everything: nothing; clean: dirty; loud: quiet; open: closed; early: late,
first: last, begin: end; near: far, inside: outside; win: lose; buy: sell, give: take, push: pull; love: hate,
friend: enemy, war: peace; day: night; left: right, east: west; smooth: rough; safe: dangerous; cheap: expensive;
awake: asleep; dead: alive; sink: float; remember: forget; always: never; question: answer
""",
    "What is {} made of?": """
bread: flour, popcorn: corn, cheese: milk, an omelet: eggs, chocolate: cocoa beans; wine: grapes, cider: apples;
ketchup: tomatoes, guacamole: avocados, sauerkraut: cabbage; a french fry: potato; a window pane: glass,
a wedding ring: gold, an old cannon: iron, a white statue in a temple: marble, a brick: baked clay,
a castle on the beach: sand, a road surface: asphalt; a thick sweater: wool, a pair of jeans: cotton, a belt: leather,
a car tire: rubber; a page in a book: paper, a campfire: burning wood, a cigar: tobacco, the nest of a crow: twigs,
a scarecrow: straw; a candle: wax; a snowman: snow, a cloud: tiny drops of water; tofu: soybeans, hummus: chickpeas;
marzipan: almonds, peanut butter: peanuts; bacon: pork, a hamburger patty: beef; honey: nectar
""",
    "What happens to {}?": """
a glass that falls on a stone floor: it breaks, a rope that is pulled too hard: it snaps,
a balloon that is pricked with a needle: it pops, a tire that rolls over a nail: it goes flat,
an egg that a hen sits on for weeks: it hatches, a ball that is thrown up: it comes down again;
ice cream in the sun: it melts, milk that is left out for a week: it turns sour,
a spoonful of sugar in hot tea: it dissolves, a candle when you blow on it: it goes out;
a boat with a hole in it: it sinks; a cork in the water: it floats; water in a freezer: it turns to ice;
water in a hot kettle: it boils, a cup when you keep pouring: it overflows; a plant that is never watered: it withers,
a wet shirt in the sun: it dries, paper in a fire: it burns, a sliced apple after an hour: it turns brown,
iron that is left in the rain: it rusts, dough with yeast in a warm place: it rises,
a white sock that is washed with red ones: it turns pink; a seed in good soil: it sprouts,
hair that is never cut: it grows long; a bell when you pull its rope: it rings; a car that runs out of fuel: it stops,
a computer that is unplugged: it shuts down; a mirror in a steamy bathroom: it fogs up; a hungry baby: it cries,
a dog that sees its owner come home: it wags its tail, a cat that is chased by a big dog: it runs away;
a lamp when you turn it on: it lights up; a bear in winter: it sleeps; a door that needs oil: it squeaks;
a muscle that is trained every day: it gets stronger
""",
    "Why do people {}?": """
wear coats: to keep warm, lock their doors: to keep thieves out, build fences around sheep: to keep the animals in,
eat lunch: because they are hungry, drink water: because they are thirsty, go to bed: because they are tired,
turn on fans: to cool down, take medicine: to get well, whisper: to keep a secret, go on diets: to lose weight,
cover their mouths when they cough: to avoid spreading germs, close the curtains: to keep the light out,
use earplugs: to block out noise; set alarm clocks: to wake up on time; wear glasses: to see better,
wear helmets: to protect their heads, wear seat belts: to be safe in a crash, put on sunscreen: to avoid a sunburn;
put candles on a cake: to celebrate a birthday, clap after a show: to thank the actors;
write shopping lists: to remember what to buy; look at maps: to find the way; study for exams: to get good grades,
open a dictionary: to look up a word; go to work: to earn money; put stamps on letters: to pay for the mail;
wave from a train: to say goodbye; put salt on icy roads: to keep cars from sliding;
hire babysitters: to have someone watch the children; put up scarecrows: to keep birds away;
water their plants: to help them grow; stand in line at a cinema: to buy tickets;
plug in their phones: to charge the battery; put up road signs: to guide drivers
""",
    "What is {} a part of?": """
a petal: a flower, a branch: a tree; a page: a book, a verse: a poem, a letter: a word; a black key: a piano,
a string: a guitar; an attic: a house, a faucet: a sink, a step: a staircase, a drawer: a desk, a mattress: a bed;
a toe: a foot, a thumb: a hand, a heel: a shoe; a sleeve: a shirt; a lens: a camera, a handlebar: a bicycle,
a sail: a ship, a cockpit: an airplane, a headlight: a car, a locomotive: a train, a link: a chain; a yolk: an egg;
a hoof: a horse, a gill: a fish, a beak: a bird; a minute hand: a clock; a soldier: an army,
a goalkeeper: a soccer team, a knight: a chess set; a wick: a candle; a bristle: a brush; Tuesday: a week;
a peel: an orange
""",
    "What kind of thing is {}?": """
a daisy: a flower, an oak: a tree; a violin: a musical instrument; a trout: a fish, an eagle: a bird,
an ant: an insect; chess: a board game, tennis: a sport; Monday: a day, July: a month, autumn: a season;
a circle: a shape; purple: a color, a ruby: a gemstone, copper: a metal; a truck: a vehicle;
a sofa: a piece of furniture; a banana: a fruit, spinach: a vegetable; Spanish: a language; Africa: a continent,
Brazil: a country, Paris: a city; Jupiter: a planet; a dollar: a unit of money, a kilogram: a unit of weight,
a mile: a unit of length; a jacket: a piece of clothing; the flu: an illness; the waltz: a dance; physics: a science;
cheddar: a cheese; coffee: a drink; anger: a feeling; an uncle: a relative; the skull: a bone; a sword: a weapon;
a hurricane: a storm; seven: a number
""",
}


@dataclass(frozen=True)
class Entry:
    question: str
    answer: str
    group: tuple[str, int]
    """The relation, and the number of the group in its table."""


@dataclass(frozen=True)
class CommonSense:
    title: str = "Common Sense"

    def items(self, rng: random.Random) -> tuple[list[Item], list[Item]]:
        train, test = split_entries(rng)
        return _side(train, rng), _side(test, rng)


def read_entries(relation: str) -> list[Entry]:
    entries = []
    for number, group in enumerate(RELATIONS[relation].split(";")):
        for row in group.split(","):
            thing, answer = " ".join(row.split()).split(": ")
            entries.append(Entry(relation.format(thing), answer, (relation, number)))
    return entries


def split_entries(rng: random.Random) -> tuple[list[Entry], list[Entry]]:
    """Every relation shuffled and cut in two."""
    train, test = [], []
    for relation in RELATIONS:
        entries = read_entries(relation)
        rng.shuffle(entries)
        train += entries[::2]
        test += entries[1::2]
    return train, test


def options(entry: Entry, side: Sequence[Entry], rng: random.Random) -> list[str]:
    """The right answer and three wrong ones in random order."""
    relation = entry.group[0]
    wrong = [other.answer for other in side if other.group[0] == relation and other.group != entry.group]
    four = [entry.answer, *rng.sample(wrong, 3)]
    rng.shuffle(four)
    return four


def _side(entries: Sequence[Entry], rng: random.Random) -> list[Item]:
    items = []
    for entry in entries:
        shown = rng.choice([other for other in entries if other != entry])
        (example, letter), (asked, right) = (_ask(either, entries, rng) for either in (shown, entry))
        items.append(Item(f"{example} {letter}\n\n{asked}", f" {right}", tuple(f" {name}" for name in LETTERS)))
    rng.shuffle(items)
    return items


def _ask(entry: Entry, side: Sequence[Entry], rng: random.Random) -> tuple[str, str]:
    """The question with its lettered answers, and the right letter."""
    four = options(entry, side, rng)
    lines = [f"{letter}. {answer}" for letter, answer in zip(LETTERS, four, strict=True)]
    return "\n".join([f"Question: {entry.question}", *lines, "Answer:"]), LETTERS[four.index(entry.answer)]


commonsense = CommonSense()

"""What words mean (semantic understanding) and how sentences are built (syntactic understanding)."""

from .templates import Story, Table, Templates

SEMANTIC_UNDERSTANDING: Templates = {
    "train": {
        "opposite": Table(
            "What is the opposite of {}? Answer with one word.",
            """
hot: cold = cool; up: down; day: night; rich: poor; empty: full; wet: dry; early: late; open: closed = shut = close;
love: hate = hatred; win: lose; alive: dead; happy: sad = unhappy; strong: weak; always: never; buy: sell;
inside: outside; remember: forget; clean: dirty = unclean; loud: quiet = silent = soft; heavy: light
""",
        ),
        "same-meaning": Table(
            "Which word means almost the same as {}: {options}?",
            """
big: large / red / late; begin: start / sleep / carry; quick: fast / cold / round; glad: happy / tired / empty;
sick: ill / tall / young; shut: close / wash / climb; angry: furious / sleepy / hungry; calm: peaceful / heavy / green;
rock: stone / leaf / river; speak: talk / run / cook; gift: present / window / doctor; smart: clever / thirsty / narrow;
center: middle / ladder / winter; road: street / roof / cloud; leap: jump / write / drink; rug: carpet / curtain / lamp;
sea: ocean / desert / hill; tale: story / shoe / number
""",
        ),
        "kind": Table(
            "What kind of thing is {}: {options}?",
            """
a rose: flower / tool / bird; a hammer: tool / fruit / fish; a shark: fish / flower / metal;
an eagle: bird / tree / drink; a violin: instrument / animal / fruit; an apple: fruit / vehicle / animal;
a truck: vehicle / plant / game; a sofa: furniture / clothing / food; coffee: drink / sport / metal;
iron: metal / animal / flower; tennis: sport / drink / tree; an oak: tree / insect / tool;
an ant: insect / tree / vehicle; a shirt: clothing / furniture / weather; purple: color / shape / number;
a circle: shape / color / animal; Spanish: language / food / planet; a sword: weapon / fruit / bird
""",
            articles=True,
        ),
        "odd-one-out": Table(
            "Which word does not belong with the others: {options}?",
            """
chair / apple / pear / banana; river / dog / cat / horse; bread / red / blue / green; moon / car / bus / train;
tiger / rose / tulip / daisy; spoon / shirt / coat / hat; milk / hammer / saw / drill; piano / oak / pine / maple;
shoe / Monday / Friday / Sunday; cheese / circle / square / triangle; lamp / eagle / crow / sparrow;
window / nose / ear / mouth; bicycle / tea / coffee / juice; carrot / gold / silver / copper;
pencil / rain / snow / hail; book / uncle / aunt / cousin; doctor / spring / autumn / winter;
garden / seven / three / nine
""",
        ),
        "word-for": Table(
            "What do we call {}? Answer with one word.",
            """
a place where many wild animals are kept for visitors to see: zoo; the meal that people eat in the morning: breakfast;
the brother of your mother: uncle; a doctor for teeth: dentist; frozen water: ice;
the mother of your father: grandmother = grandma = granny; a person who flies a plane: pilot;
a time of ten years: decade; the son of a king: prince; a person who works in a school and gives lessons: teacher;
a person who steals things: thief = robber = burglar; water that falls from the clouds in drops: rain;
a time of one hundred years: century; a shape with three sides: triangle; the sister of your father: aunt = auntie;
a man on the day of his wedding: groom = bridegroom; a woman whose husband has died: widow;
a child who has lost both parents: orphan
""",
            articles=True,
        ),
        "gap": Table(
            "{} Which word fits in the gap: {options}?",
            """
She drinks a cup of ___.: tea / sand / wood; He reads a ___.: book / cloud / potato;
The bird sings in the ___.: tree / cup / letter; We sleep in a ___.: bed / bottle / spoon;
The fish swims in the ___.: lake / sky / oven; The baker makes fresh ___.: bread / shoes / clouds;
I wear gloves on my ___.: hands / ears / teeth; The cat catches a ___.: mouse / house / mountain;
Please close the ___.: door / moon / soup; She writes a letter with a ___.: pen / shoe / cake;
The sun is very ___.: bright / hungry / wooden; We cut the meat with a ___.: knife / pillow / candle;
The farmer milks the ___.: cow / chair / road; He puts the key into the ___.: lock / egg / wind;
They cross the river on a ___.: bridge / needle / flower; The teacher writes on the ___.: board / rain / horse;
She brushes her ___.: hair / bread / garden
""",
        ),
    },
    "validation": {
        "example-of": Table(
            "Which of these is {}: {options}?",
            """
a vegetable: cabbage / hammock / mirror; an animal: camel / button / valley; a musical instrument: harp / fork / stove;
a building: church / blanket / stork; a piece of clothing: jacket / onion / bridge; a month: July / Thursday / noon;
a feeling: anger / pocket / ladder; a game: chess / chimney / butter; a drink: lemonade / mattress / wallet;
a planet: Saturn / Brazil / Easter; a body part: shoulder / kettle / forest; a metal: zinc / cotton / paper
""",
        ),
        "opposite-of-three": Table(
            "Which word is the opposite of {}: {options}?",
            """
smooth: rough / gray / loud; safe: dangerous / warm / round; deep: shallow / sweet / brown;
cheap: expensive / soft / busy; polite: rude / fresh / tall; thick: thin / wise / ripe;
generous: stingy / sunny / wooden; ancient: modern / salty / purple; brave: cowardly / silver / narrow;
push: pull / sing / count; arrive: leave = depart / paint / boil; increase: decrease / whistle / borrow
""",
        ),
        "nearly-the-same": Table(
            "Do the words {} mean nearly the same? Answer yes or no.",
            """
infant and baby: yes; couch and sofa: yes; taxi and cab: yes; film and movie: yes; sunrise and dawn: yes;
error and mistake: yes; giant and dwarf: no; guest and host: no; ceiling and floor: no; victory and defeat: no;
truth and lie: no; question and answer: no
""",
        ),
    },
    "test": {
        "last-word": Table(
            "{} What does the last word mean: {options}?",
            """
The boy was exhausted.: very tired / very rich / very tall; The box was enormous.: very large / very cheap / very new;
The street was deserted.: without people / without trees / without shops; The king was wealthy.: rich / cruel / old;
The pond was frozen.: turned to ice / full of fish / far away; The knife was blunt.: not sharp / not clean / not new;
The test was simple.: easy / long / strange; The joke was hilarious.: very funny / very short / very old;
The girl was starving.: very hungry / very lonely / very late;
The shirt was filthy.: very dirty / very wide / very thin; The play was dull.: boring / famous / free;
The glass was transparent.: clear / broken / heavy
""",
        ),
        "shared-kind": Table(
            "What are {}: {options}?",
            """
trout, salmon and herring: fish / birds / trees; willow, birch and fir: trees / stones / songs;
beetles, flies and moths: insects / flowers / fruits; plums, cherries and grapes: fruits / tools / snakes;
pliers, wrenches and axes: tools / fruits / dances; Peru, Kenya and Nepal: countries / languages / seasons;
lilies, orchids and poppies: flowers / insects / coins; robins, swans and pigeons: birds / fish / boats;
hockey, rugby and golf: sports / drinks / colors; boots, sandals and slippers: shoes / plates / storms;
April, June and October: months / animals / rivers; rings, necklaces and bracelets: jewelry / weapons / vegetables
""",
        ),
        "part-of": Table(
            "What is {} a part of: {options}?",
            """
a sleeve: a sweater / a kettle / a lemon; a petal: a blossom / a ladder / a radio;
a page: a newspaper / a puddle / a hammock; a wing: an airplane / a bucket / a sock;
a wheel: a wagon / a cloud / a candle; a thumb: a hand / a pear / a tent; a heel: a foot / a tooth / a wall;
a chapter: a novel / a shovel / a bean; a roof: a cottage / a fork / a carrot; a hoof: a donkey / a lamp / a stamp;
a string: a guitar / a brick / a pond; a yolk: an egg / an axe / an onion
""",
        ),
    },
}

SYNTACTIC_UNDERSTANDING: Templates = {
    "train": {
        "subject": Story("""
What is the subject of this sentence? The {job1} {verb1} the {thing1}. Answer with one word. -> {job1} = the {job1}
"""),
        "verb": Story("""
What is the verb in this sentence? {name1} {verb1} a {thing1} yesterday. Answer with one word. -> {verb1}
"""),
        "adjective": Story("""
Which word is the adjective in this sentence? The {trait1} {job1} has a {pet1}. Answer with one word. -> {trait1} |
Which word is the adjective in this sentence? {name1} has a {look1} {thing1}. Answer with one word. -> {look1}
"""),
        "plural": Table(
            "What is the plural of {}? Answer with one word.",
            """
child: children; mouse: mice; foot: feet; box: boxes; city: cities; leaf: leaves; woman: women; knife: knives;
tooth: teeth; baby: babies; dish: dishes; wolf: wolves; man: men; tomato: tomatoes; key: keys; church: churches;
apple: apples; watch: watches
""",
        ),
        "past": Table(
            "What is the past tense of {}? Answer with one word.",
            """
go: went; see: saw; eat: ate; take: took; write: wrote; run: ran; come: came; give: gave; make: made; teach: taught;
fly: flew; play: played; walk: walked; know: knew; begin: began; buy: bought; tell: told; stop: stopped
""",
        ),
        "part-of-speech": Story(
            """
The {job1} {verb1} the {look1} {thing1}. What is the word "{thing1}" in this sentence: {options}?
-> noun / verb / adjective |
The {job1} {verb1} the {look1} {thing1}. What is the word "{verb1}" in this sentence: {options}?
-> verb / noun / adjective |
The {job1} {verb1} the {look1} {thing1}. What is the word "{look1}" in this sentence: {options}?
-> adjective / noun / verb
""",
            articles=True,
        ),
    },
    "validation": {
        "object": Story("""
What is the object of the verb in this sentence? {name1} {verb1} the {thing1}. Answer with one word.
-> {thing1} = the {thing1}
"""),
        "word-order": Table(
            "Put these words in the right order, so that they state something: {}",
            """
sleeps, baby, the: The baby sleeps; him, know, I: I know him; went, home, she: She went home;
swim, he, can: He can swim; tired, they, are: They are tired; rings, bell, the: The bell rings;
raining, is, it: It is raining; question, have, I, a: I have a question; late, are, we: We are late;
crying, is, child, the: The child is crying; saw, them, we: We saw them; hungry, am, I: I am hungry
""",
        ),
        "agreement": Table(
            "{} Which form fits in the gap: {options}?",
            """
The boys ___ in the yard.: are / is; My sister ___ in a bank.: works / work; They ___ to school by bus.: go / goes;
The sun ___ in the east.: rises / rise; We ___ very hungry.: were / was; The old man ___ a stick.: has / have;
These shoes ___ too much.: cost / costs; It ___ a lot in April.: rains / rain; The children ___ a song.: sing / sings;
Every house ___ a roof.: has / have; Two girls ___ on the bench.: sit / sits; She ___ ten years old.: is / are
""",
        ),
    },
    "test": {
        "comparative": Table(
            "What is the comparative form of {}? Answer with one word.",
            """
good: better; bad: worse; easy: easier; hot: hotter; small: smaller; fast: faster; late: later; thin: thinner;
early: earlier; nice: nicer; long: longer; dry: drier = dryer
""",
        ),
        "pronoun": Story("""
Which word is the pronoun in this sentence? The {job1} showed him the {thing1}. Answer with one word. -> him |
Which word is the pronoun in this sentence? She {verb1} the {look1} {thing1}. Answer with one word. -> she |
Which word is the pronoun in this sentence? The {job1} and the {job2} saw us. Answer with one word. -> us |
Which word is the pronoun in this sentence? Yesterday they {verb1} a {thing1}. Answer with one word. -> they
"""),
        "adverb": Table(
            "Which word is the adverb in this sentence? {} Answer with one word.",
            """
The nurse spoke quietly.: quietly; Emma ran quickly to the bus.: quickly; The dog barked loudly at us.: loudly;
Jack slowly opened the gate.: slowly; The plumber politely asked for tea.: politely; Snow fell softly.: softly;
The sailor sadly looked at the sea.: sadly; Olivia carefully closed the box.: carefully;
The king angrily left the hall.: angrily; Victor waited patiently for her.: patiently;
Ella smiled warmly at the guests.: warmly; The soldiers fought bravely.: bravely
""",
        ),
    },
}

// What each picture and each choice means, in a sentence; the page of words says more.

export const WORDS = {
  beta: [
    "β, the inverse temperature",
    "P(s) ∝ exp(−βE): at β = 0 every unit tosses a coin, at 1 the machine draws as it learned, and far above it freezes into a valley.",
  ],
  field: [
    "Field",
    "A field on every visible unit, as if the whole image were pushed towards ink or towards paper.",
  ],
  zones: [
    "Phases",
    "What random patterns of this load do at this temperature, by replica theory. Trained patterns are not random, so that this is a guide and no verdict.",
  ],
  sweeps: ["Sweeps a frame", "How often every unit is drawn anew between two pictures."],
  hold: [
    "Hold pixels",
    "Pixels that you draw stay as they are in all chains; the machine fills in the rest. The picture is the mean over the chains.",
  ],
  chains: [
    "Chains",
    "Independent Gibbs chains of one machine, all at the same β: each is a walk over the machine's states.",
  ],
  ladder: [
    "Tempering",
    "A walker on every rung from free pixels to the machine. Neighbours trade places, so that what is stuck at the bottom can climb, move and come back.",
  ],
  energy: [
    "Energy",
    "E/N of each chain: low is probable. Chains that lie flat at different heights are stuck in different valleys.",
  ],
  overlaps: [
    "P(q), the overlaps",
    "q is how much two chains agree, 1 for the same image and 0 for nothing in common. One peak is one state; many peaks far from 0 are the valleys of a glass.",
  ],
  patterns: [
    "Patterns",
    "Regularized Axons: the couplings are built from K patterns, J = ξᵀξ/√K, and the patterns are what is trained. Blue is down, orange is up.",
  ],
  couplings: [
    "Couplings",
    "What some hidden units are coupled to, one image each: blue against, orange for.",
  ],
  negative: [
    "Negative phase",
    "The gradient compares data with the model. PID takes the patterns themselves for the model, CD runs chains from the data, PCD keeps chains alive, exact sums over all states.",
  ],
  hamming: [
    "Hamming distance",
    "The machine is given part of an image and fills in the rest in one pass: the share of pixels that are wrong. Guessing gives 0.5.",
  ],
  log_likelihood: [
    "Log-likelihood",
    "The mean of log p over the rows of the data (an image is a row), in nats: exact where it can be summed, else followed by annealing, with its error.",
  ],
  log_bound: [
    "Bound of the log-likelihood",
    "A lower bound of the mean of log p over the rows of the data (an image is a row), in nats: hidden units that are coupled to each other are inferred by mean field, and log Z is followed by annealing.",
  ],
  bands: ["Bands", "The line is the mean over replicas, the band holds four of five of them."],
  replicas: [
    "Replicas",
    "Independent trainings side by side, from different starts and in different orders of the data.",
  ],
  rate: [
    "Rate",
    "How far an update moves the parameters. A change is written into the run with the update from which it holds, so that the run can be repeated to the same bits.",
  ],
  landscape: [
    "Landscape",
    "Valleys found by descent from random states: near each other when they agree, deep when their energy is low, large when many descents end there.",
  ],
  basins: [
    "Basins of the patterns",
    "A share of a pattern's units is turned, and descent runs: how much of the pattern comes back. A wide shelf is a wide valley; in a glass it falls at once.",
  ],
  spectrum: [
    "Spectrum",
    "Singular values of the couplings. Random couplings have none beyond the edge; those that stand out carry what was learned.",
  ],
  phases: [
    "Phase diagram",
    "Load (patterns for each unit) across, temperature up: where random patterns are free, remembered or lost in a glass, and where this machine stands.",
  ],
  likelihood: [
    "Likelihood with bounds",
    "log p of the data and the interval that holds it with 95 %: annealing from above and from below catches log Z between two estimates.",
  ],
  along: [
    "Along the training",
    "log p at every checkpoint, bridged from one to the next, with its 95 % interval.",
  ],
  verdict: [
    "Verdict",
    "Paramagnet, ordered or spin glass: decided by numbers with errors, and undecided where a number is too near its threshold.",
  ],
  samples: [
    "Samples",
    "Gibbs chains that go on while the machine learns: its persistent particles, or chains of their own.",
  ],
  filled: [
    "Filled in",
    "Test images: the original, what the machine is given (blue is unknown), and what one pass makes of it.",
  ],
  each: ["Each replica", "One chain of every replica."],
  marginals: [
    "Columns",
    "How often each value comes in rows that the machine draws. Hold a value, and the bars show how often the others come together with it; a small mark shows where each bar is if nothing is held.",
  ],
  drawn: [
    "Rows that it draws",
    "Invented rows, as probable as the machine thinks them. They meet what is held above, and none of them is a row of your file but by chance.",
  ],
  score: [
    "Score of a row",
    "log p, the logarithm of the row's probability: the higher, the more usual the row. The same of each cell given the others tells which of them does not fit.",
  ],
  gaps: [
    "Gaps and unusual rows",
    "Empty cells are filled with what goes with the others of their row; known cells stay. Rows are scored by log p, and the least probable come first.",
  ],
};

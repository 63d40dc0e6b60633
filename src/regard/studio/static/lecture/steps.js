// The steps of the lecture: a title, three sentences in plain words, an equation, where it comes from, and a live view.

import { benchView, explanationView } from "./live.js";
import { bleuByLength, costTable } from "./charts.js";
import { addressing, headGrid, positions } from "./demos.js";

export const STEPS = [
  {
    id: "why",
    title: "Why attention?",
    source: "Bahdanau, Cho & Bengio 2015",
    sentences: [
      "A translator that writes “clés” should look at “keys”, and not at the whole sentence at once.",
      "Attention gives each word of the output its own mixture of the input: a weight for each input word, and the sum of the words times their weights.",
      "Below, each row is a French word that the model wrote, and the cells with large numbers are the English words that it looked at.",
    ],
    tex: ["c_i = \\sum_j w_{ij} \\, h_j"],
    view: explanationView("translation"),
  },
  {
    id: "bottleneck",
    title: "The bottleneck of sequence to sequence",
    source: "Cho et al. 2014; Sutskever, Vinyals & Le 2014",
    sentences: [
      "Without attention, the encoder must put a sentence of any length into one vector v of a fixed width, and the decoder sees nothing else.",
      "The longer the sentence, the more is lost: two models that differ in attention alone were trained side by side, with the same number of updates.",
      "On sentences of 12 words and more the gap is more than twice that of the shortest ones.",
    ],
    tex: ["p(y_1, \\ldots, y_T \\mid x) = \\prod_t p(y_t \\mid v, y_1, \\ldots, y_{t-1}), \\quad v = h_n"],
    view: bleuByLength,
  },
  {
    id: "lookup",
    title: "A dictionary that always answers",
    source: "key, value and query",
    sentences: [
      "A dictionary gives the value of the key that equals the query; attention mixes the values of all keys, the near ones more.",
      "Boxes of volume 300 and 400 cost 30 and 40: with weights by the inverse distance, one of 360 costs 36.",
      "Drag the query along the line, and the answer follows.",
    ],
    tex: ["c = \\sum_j w_j v_j, \\quad w_j = \\frac{1 / \\lvert q - k_j \\rvert}{\\sum_i 1 / \\lvert q - k_i \\rvert}"],
    view: benchView("lookup", ["score"]),
  },
  {
    id: "mechanism",
    title: "Score, align, context",
    source: "the mechanism of all papers here",
    sentences: [
      "A score says how well each key answers the query; an alignment turns the scores into weights; the context is the sum of the values times their weights.",
      "Papers differ in where queries, keys and values come from, in the score, and in the alignment, and in little else.",
      "Drag the query to another key, or a value to another place, and watch the three lines of numbers.",
    ],
    tex: ["e_{ij} = \\text{score}(q_i, k_j), \\quad w_i = \\text{align}(e_i), \\quad c_i = \\sum_j w_{ij} v_j"],
    view: benchView("free", ["temperature"]),
  },
  {
    id: "scores",
    title: "Six scores",
    source: "Graves 2014, Bahdanau 2015, Luong 2015, Vaswani 2017",
    sentences: [
      "A dot product needs nothing learnt, but equal widths; the general score has a matrix between the two; the additive one a small network.",
      "The cosine looks at directions alone, and the location score does not look at the keys at all.",
      "All six below see the same query and keys: dot and scaled dot agree in the order of the keys, the others need not.",
    ],
    tex: [
      "\\text{dot}\\; q \\cdot k, \\quad \\text{scaled dot}\\; \\frac{q \\cdot k}{\\sqrt{d}}, \\quad \\text{general}\\; q^\\top W k",
      "\\text{additive}\\; v^\\top \\tanh(W q + U k), \\quad \\text{cosine}\\; \\beta \\frac{q \\cdot k}{\\lvert q \\rvert \\, \\lvert k \\rvert}, \\quad \\text{location}\\; w_j \\cdot q",
    ],
    view: benchView("scores", []),
  },
  {
    id: "scale",
    title: "Why dot products are scaled",
    source: "Vaswani et al. 2017",
    sentences: [
      "With entries of variance one, a dot product of width d has variance d, so at d = 256 the scores differ by some tens.",
      "A softmax of such scores is almost one-hot before anything is learnt, and hardly any gradient reaches the other keys.",
      "Divided by √d, the scores have variance one at every width: move the width and compare.",
    ],
    tex: ["\\text{Var}(q \\cdot k) = d, \\quad \\text{Var}(\\frac{q \\cdot k}{\\sqrt{d}}) = 1"],
    view: benchView("scaled", ["width", "seed"]),
  },
  {
    id: "strength",
    title: "Why cosine needs a key strength",
    source: "Graves, Wayne & Danihelka 2014",
    sentences: [
      "A cosine lies between −1 and 1, so the best key can be ahead of the worst by 2 at most.",
      "Over ten keys no weight of a softmax then exceeds 0.451, even where the query hits one key and points away from all others.",
      "The neural Turing machine multiplies by a key strength β that it chooses at each step.",
    ],
    tex: ["w_{\\text{most}} = \\frac{e^{\\beta}}{e^{\\beta} + (n - 1) e^{-\\beta}}, \\quad n = 10, \\; \\beta = 1 : \\; 0.451"],
    view: benchView("cosine", ["strength"]),
  },
  {
    id: "sparse",
    title: "Softmax, entmax, sparsemax",
    source: "Martins & Astudillo 2016; Peters, Niculae & Martins 2019",
    sentences: [
      "Softmax gives every key a weight above zero, however bad its score is.",
      "Sparsemax takes the nearest point on the simplex, so weak keys get exactly nothing; entmax lies between the two.",
      "Change the temperature: softmax comes close to one key, sparsemax reaches it.",
    ],
    tex: [
      "\\text{sparsemax}(e) = \\text{the}\\; w \\ge 0, \\; \\sum_j w_j = 1, \\; \\text{with the least}\\; \\sum_j (w_j - e_j)^2, \\quad w_j = \\max(e_j - \\tau, 0)",
      "\\text{entmax}: \\; w_j = \\max(1 + (\\alpha - 1)(e_j - \\mu), 0)^{1 / (\\alpha - 1)}",
    ],
    view: benchView("sparse", ["temperature", "alpha"]),
  },
  {
    id: "hard",
    title: "Soft and hard",
    source: "Xu et al. 2015; Mnih et al. 2014",
    sentences: [
      "Soft attention mixes all values, and its gradient is exact; hard attention draws one key, and reads one value.",
      "The draw has no gradient, so the model learns from rewards: what went better than a baseline b becomes more probable.",
      "Draw often, and the shares come close to the soft weights.",
    ],
    tex: ["s \\sim w, \\quad c = v_s, \\quad \\nabla J \\approx (r - b) \\, \\nabla \\log p(s)"],
    view: benchView("hard", ["temperature", "samples"]),
  },
  {
    id: "local",
    title: "Global and local",
    source: "Luong, Pham & Manning 2015",
    sentences: [
      "Global attention looks at all words of the source; local attention at a window of 2D + 1 of them.",
      "Local-m puts the window at the time t of the query; local-p predicts its centre p from the query.",
      "The bell curve of local-p comes after the softmax and is not normalised again: by it the gradient reaches W and v.",
    ],
    tex: [
      "p_t = S \\cdot \\text{sigmoid}(v_p^\\top \\tanh(W_p h_t))",
      "a_t(s) = \\text{align}(h_t, \\bar{h}_s) \\, \\exp( - \\frac{(s - p_t)^2}{2 \\sigma^2} ), \\quad \\sigma = D / 2",
    ],
    view: benchView("local", ["align", "window", "place"]),
  },
  {
    id: "rnnsearch",
    title: "RNNsearch: attention in a translator",
    source: "Bahdanau, Cho & Bengio 2015",
    sentences: [
      "A bidirectional network reads the source and leaves an annotation h for each word; the decoder asks with its state before the word.",
      "The score is additive, the alignment a softmax, and the context enters the next state and the output.",
      "This one was trained here for a few minutes on short sentences, and its alignment is learnt without being shown any.",
    ],
    tex: [
      "e_{ij} = v_a^\\top \\tanh(W_a s_{i-1} + U_a h_j), \\quad \\alpha_{ij} = \\softmax_j(e_{ij}), \\quad c_i = \\sum_j \\alpha_{ij} h_j",
    ],
    view: explanationView("rnnsearch"),
  },
  {
    id: "luong",
    title: "Luong: attention after the state",
    source: "Luong, Pham & Manning 2015",
    sentences: [
      "Here the decoder moves first and asks with its new state h; state and context then make the vector that predicts the word.",
      "Three scores were compared: dot, general and concat, which is the additive score written with one matrix.",
      "Choose one of them, and see how little else changes.",
    ],
    tex: [
      "\\text{score}(h_t, \\bar{h}_s) = h_t^\\top \\bar{h}_s, \\quad \\text{or}\\; h_t^\\top W_a \\bar{h}_s, \\quad \\text{or}\\; v_a^\\top \\tanh(W_a [h_t ; \\bar{h}_s])",
      "\\tilde{h}_t = \\tanh(W_c [c_t ; h_t]), \\quad p(y_t \\mid \\ldots) = \\softmax(W_s \\tilde{h}_t)",
    ],
    view: benchView("luong", ["score"]),
  },
  {
    id: "captions",
    title: "Show, attend and tell",
    source: "Xu et al. 2015",
    sentences: [
      "The keys are places of a picture: a convolutional network leaves one vector for each, and the caption asks them word by word.",
      "A gate β, between 0 and 1, says how much of the picture a word needs at all.",
      "Choose a word of the caption: the marked places are where this model looked while it wrote it.",
    ],
    tex: [
      "e_{ti} = f_{\\text{att}}(a_i, h_{t-1}), \\quad \\alpha_t = \\softmax(e_t), \\quad \\hat{z}_t = \\beta_t \\sum_i \\alpha_{ti} a_i",
    ],
    view: explanationView("captions"),
  },
  {
    id: "glimpses",
    title: "Glimpses: attention that moves",
    source: "Mnih et al. 2014 (RAM); Ba et al. 2015 (DRAM)",
    sentences: [
      "This model never sees the whole picture: it sees small patches, sharp at the centre and coarse around it, and decides where to look next.",
      "The place is drawn from a normal distribution around a mean that the network gives, so it learns by rewards, as hard attention does.",
      "Follow the four glimpses at a digit; cost grows with the number of glimpses, not with the size of the picture.",
    ],
    tex: ["l_t \\sim N(\\mu(h_t), \\sigma^2 I), \\quad \\nabla J \\approx \\sum_t \\nabla \\log \\pi(l_t \\mid h_t) \\, (R - b_t)"],
    view: explanationView("ram"),
  },
  {
    id: "reading",
    title: "A text looks at itself: hops",
    source: "Lin et al. 2017",
    sentences: [
      "A sentence can be read without a query: a small network scores each word, and r rows of weights, the hops, look at different parts.",
      "A penalty keeps the rows apart, as all of them could otherwise look at the same words.",
      "What is weighted are states of a network that reads in both directions, so a marked word may stand for its neighbours too, such as “not”.",
    ],
    tex: ["A = \\softmax(W_{s2} \\tanh(W_{s1} H^\\top)), \\quad M = A H, \\quad P = \\lVert A A^\\top - I \\rVert_F^2"],
    view: explanationView("reading"),
  },
  {
    id: "self",
    title: "Self-attention and composite concepts",
    source: "Vaswani et al. 2017",
    sentences: [
      "Queries, keys and values are all made from the same words, so each word asks all others and takes in what fits.",
      "After a layer each word is a mixture of the words that it took in: a composite concept, which the next layer can ask as a whole.",
      "Choose a word and a layer, and see what it is made of.",
    ],
    tex: [
      "q_i = W_Q x_i, \\; k_j = W_K x_j, \\; v_j = W_V x_j, \\quad z_i = \\sum_j \\softmax_j( \\frac{q_i \\cdot k_j}{\\sqrt{p}} ) \\, v_j",
    ],
    view: explanationView("concepts"),
  },
  {
    id: "heads",
    title: "Many heads",
    source: "Vaswani et al. 2017",
    sentences: [
      "One softmax makes one mixture; several heads with projections of their own make several at the same cost, as each is narrower.",
      "Each small square is a head of the shipped translator, from English to French; rows of squares are layers.",
      "Choose one to see it large: some follow the words, some rest on the end of the sentence.",
    ],
    tex: [
      "\\text{head}_i = \\text{Attention}(Q W_i^Q, K W_i^K, V W_i^V), \\quad \\text{MultiHead} = \\text{Concat}(\\text{head}_1, \\ldots, \\text{head}_h) \\, W^O",
    ],
    view: headGrid,
  },
  {
    id: "positions",
    title: "Positions",
    source: "Vaswani et al. 2017",
    sentences: [
      "Attention does not know the order of its keys, so order must be added to the words.",
      "Each pair of numbers is a clock hand with a speed of its own; a shift by n turns every hand by the same angle wherever it starts.",
      "So the product of two positions depends on their distance alone: move the two places together and watch it.",
    ],
    tex: ["\\text{PE}(pos, 2i) = \\sin( pos / 10000^{2i/d} ), \\quad \\text{PE}(pos, 2i+1) = \\cos( pos / 10000^{2i/d} )"],
    view: positions,
  },
  {
    id: "costs",
    title: "What it costs",
    source: "Vaswani et al. 2017, table 1, measured here",
    sentences: [
      "Self-attention compares all pairs of words, so it grows with the square of the length n; a recurrent layer grows with the square of the width d.",
      "While sentences are shorter than the model is wide, self-attention does less work, and no word waits for the word before.",
      "The exponents were measured: time was fitted as a power of n, of d, of the kernel k and of the window r.",
    ],
    tex: [
      "\\text{self-attention}\\; n^2 d, \\quad \\text{recurrent}\\; n d^2, \\quad \\text{convolution}\\; k n d^2, \\quad \\text{restricted}\\; r n d",
    ],
    view: costTable,
  },
  {
    id: "memory",
    title: "Memory: look, take in, look again",
    source: "Sukhbaatar et al. 2015",
    sentences: [
      "Each sentence of a story is a slot with a key m and a value c; the question u asks, and what it gets is added to it.",
      "The next hop asks with the sum, so it can find what the first answer made interesting.",
      "The model below learnt from stories and answers alone which sentence supports the answer.",
    ],
    tex: ["p_i = \\softmax_i(u^\\top m_i), \\quad o = \\sum_i p_i c_i, \\quad u^{k+1} = u^k + o^k"],
    view: explanationView("memory"),
  },
  {
    id: "machine",
    title: "A memory that is written",
    source: "Graves, Wayne & Danihelka 2014",
    sentences: [
      "A neural Turing machine finds a slot by content, or goes on from the slot where it was: a gate mixes the two, a shift moves them, and a power makes them sharp.",
      "With these three it can walk along its memory as a tape, which is how it copies.",
      "Move the sliders: with the gate at 0 the content does not matter.",
    ],
    tex: [
      "w^g = g \\, w^c + (1 - g) \\, w_{t-1}, \\quad \\tilde{w}(i) = \\sum_j w^g(j) \\, s(i - j), \\quad w(i) = \\frac{\\tilde{w}(i)^{\\gamma}}{\\sum_j \\tilde{w}(j)^{\\gamma}}",
    ],
    view: addressing,
  },
  {
    id: "graphs",
    title: "Graphs",
    source: "Veličković et al. 2018",
    sentences: [
      "In a graph a node asks its neighbours only, so the mask is the list of edges, and cost grows with the edges.",
      "The score is a sum of two halves through a LeakyReLU: one number of the node that asks, one of the node that is asked.",
      "Thick edges are neighbours from which this node took much.",
    ],
    tex: [
      "\\alpha_{ij} = \\softmax_{j \\in N(i)}( \\LeakyReLU(a^\\top [W h_i ; W h_j]) ), \\quad h'_i = \\sigma( \\sum_j \\alpha_{ij} W h_j )",
    ],
    view: explanationView("graph"),
  },
  {
    id: "seeing",
    title: "Seeing any model",
    source: "regard.trace",
    sentences: [
      "Fast kernels never write their weights down, so a trace computes the rows that you ask for a second time, exactly.",
      "It works on any PyTorch model as it is, from a translator of this library to a large language model.",
      "Change score, alignment and mask once more in the playground: you now know all of its parts.",
    ],
    tex: ["w_i = \\softmax( \\frac{q_i K^\\top}{\\sqrt{d}} ) \\; \\text{for the rows}\\; i \\; \\text{that you ask for}"],
    view: explanationView("heads", {
      code: 'import regard\n\nwith regard.trace(model, rows=[-1]) as seen:\n    model(inputs)\nseen.page("seen.html")',
    }),
  },
];

// The parts of the view, by what a record says it is.

import { attention } from "./attention.js";
import { attributions } from "./attributions.js";
import { contexts } from "./contexts.js";
import { lens } from "./lens.js";
import { tokens } from "./tokens.js";

export const parts = { attention, lens, attributions, contexts, tokens };

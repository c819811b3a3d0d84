// Return the outputs of a formula of a page, each a list; numbers that are not finite become null in JSON.
// `inputs` and `over` hold lists of the fixed and of the varying inputs; `steps` counts steps of a recursion.
const answer = (formulas, {key, inputs, over, steps}) => {
  const number = (v) => v === "Infinity" ? Infinity : v;
  const rows = (columns) => {
    const names = Object.keys(columns), count = names.length ? columns[names[0]].length : 1;
    return Array.from({length: count}, (_, k) => Object.fromEntries(names.map((name) => [name, number(columns[name][k])])));
  };
  const given = rows(inputs), varying = rows(over), names = Object.keys(over);
  const found = Array.from({length: Math.max(given.length, varying.length)}, (_, k) => {
    const at = formulas[key](given[k % given.length]), first = varying[k % varying.length];
    if (!steps) return at(names.length ? first[names[0]] : undefined);
    let now = first;
    for (let n = 0; n < steps; ++n) now = at(now);
    return now;
  });
  return Object.fromEntries(Object.keys(found[0]).map((name) => [name, found.map((row) => row[name])]));
};

/** The next number that begins with 1, 2, 2.5 or 5, so that a chart's grid has round values. */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 2.5, 5, 10].find((step) => step * power >= value) ?? 10) * power
}

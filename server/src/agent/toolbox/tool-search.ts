import type { AgentTool } from './toolbox.ts'

const mostWords = 20
const mostFound = 8

/** Ranks tools by how many words of the query their names, titles and descriptions contain. Best first. */
export function searchTools(tools: readonly AgentTool[], query: string): AgentTool[] {
  const words = [...new Set(wordsOf(query))].slice(0, mostWords)
  return tools
    .map((tool) => ({ tool, score: scoreOf(tool, words) }))
    .filter(({ score }) => score > 0)
    .sort((one, other) => other.score - one.score)
    .slice(0, mostFound)
    .map(({ tool }) => tool)
}

/** A word in the name counts more than one in the title, and that counts more than one in the description. */
function scoreOf({ ref, title = '', description }: AgentTool, words: readonly string[]): number {
  const names = wordsOf(ref.name)
  const [name, heading, text] = [names.join(' '), wordsOf(title).join(' '), description.toLowerCase()]
  return words.reduce(
    (score, word) =>
      score +
      (names.includes(word) ? 8 : name.includes(word) ? 4 : 0) +
      (heading.includes(word) ? 3 : 0) +
      (text.includes(word) ? 1 : 0),
    0,
  )
}

/** Also splits `camelCase` and `snake_case`. */
const wordsOf = (text: string): string[] =>
  text
    .replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2')
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu) ?? []

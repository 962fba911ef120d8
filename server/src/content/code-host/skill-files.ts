import { isUtf8 } from 'node:buffer'
import type { OpenRepository, TreeEntry } from '../github/github.ts'
import { GithubError } from '../github/github-errors.ts'
import { contentLimit, contentTooLong } from '../skills/skill-document.ts'
import type { SyncedFile } from '../skills/synced-skills.ts'

const mostFiles = 200
const mostBytes = 16 * 1024 * 1024
const longestPath = 500
const symbolicLink = '120000'

/**
 * Lists every SKILL.md in the folder `skills` and below it, and reads those whose hash isn't known. Either the list is
 * complete, or this throws.
 */
export async function readSkillFiles(
  repository: OpenRepository,
  known: ReadonlyMap<string, string>,
): Promise<SyncedFile[]> {
  const root = await repository.listTree(repository.commit)
  const folder = root.find(({ path, type }) => path === 'skills' && type === 'tree')
  if (!folder) return []
  const entries = (await repository.listTree(folder.sha, { isRecursive: true })).filter(isSkill)
  if (entries.length > mostFiles) {
    throw new GithubError(
      'refused',
      `The repository has ${entries.length} skills, and at most ${mostFiles} can be synced`,
    )
  }
  const files: SyncedFile[] = []
  let bytesLeft = mostBytes
  for (const { path: below, sha, size = 0 } of entries) {
    const path = `skills/${below}`
    const problem = problemOf(path, size)
    if (problem) files.push({ path: path.slice(0, longestPath).toWellFormed(), sha, content: { problem } })
    else if (known.get(path) === sha) files.push({ path, sha, content: 'unchanged' })
    else {
      bytesLeft -= size
      if (bytesLeft < 0) throw new GithubError('refused', 'The skills that changed are larger than 16 MiB together')
      files.push({ path, sha, content: readText(await repository.readBlob(sha)) })
    }
  }
  return files.sort((one, other) => (one.path < other.path ? -1 : 1))
}

const isSkill = ({ path, type, mode }: TreeEntry): boolean =>
  type === 'blob' && mode !== symbolicLink && /(^|\/)SKILL\.md$/.test(path)

function problemOf(path: string, size: number): string | undefined {
  if (path.length > longestPath) return `The path is longer than ${longestPath} characters`
  if (!path.isWellFormed() || path.includes('\0')) return 'The path contains characters that Inlay can’t store'
  if (path.split('/').includes('..')) return 'The path leads out of its folder'
  return size > contentLimit ? String(contentTooLong().envelope.data?.details) : undefined
}

const readText = (bytes: Buffer): SyncedFile['content'] =>
  isUtf8(bytes) ? { text: bytes.toString() } : { problem: 'The file isn’t UTF-8 text' }

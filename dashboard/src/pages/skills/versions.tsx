import { useQuery } from '@tanstack/react-query'
import { GitCompareArrows, History } from 'lucide-react'
import { lazy, Suspense, useState } from 'react'
import { Button } from '../../ui/controls/button.tsx'
import { Badge, Section } from '../../ui/display/layout.tsx'
import { Loaded, Skeleton } from '../../ui/display/states.tsx'
import { Ago } from '../../ui/display/time.tsx'
import { Dialog, FormActions } from '../../ui/overlays/overlays.tsx'
import { words } from '../../ui/words.ts'
import { type Skill, versionQuery, versionsQuery } from './queries.ts'
import { t } from './texts.ts'

const TextComparison = lazy(() => import('./editor.tsx').then(({ TextComparison }) => ({ default: TextComparison })))

/** Every saved text, to compare and to restore. */
export function Versions({
  skill,
  text,
  known,
  isDirty,
  isPending,
  canRestore,
  onRestore,
}: {
  skill: Skill
  /** What is in the editor. */
  text: string
  /** A newer version that was saved meanwhile. */
  known: number | undefined
  isDirty: boolean
  isPending: boolean
  /** False if the text comes from a repository. */
  canRestore: boolean
  onRestore: (version: number) => Promise<unknown>
}) {
  const versions = useQuery(versionsQuery(skill.id, known ?? skill.version))
  const [compared, setCompared] = useState<number>()
  return (
    <Section title={t.versions}>
      <Loaded query={versions}>
        {({ versions: list }) => (
          <ol className="-my-1 max-h-72 overflow-y-auto">
            {list.map(({ version, created_by, created_at }) => (
              <li key={version} className="flex items-center gap-2 border-line py-1.5 not-first:border-t">
                <div className="min-w-0 flex-1 text-sm">
                  <p className="flex items-center gap-2 font-[550]">
                    {t.version(version)} {version === skill.version && <Badge tone="good">{t.current}</Badge>}
                  </p>
                  <p className="truncate text-muted">
                    <Ago at={created_at} /> · {created_by}
                  </p>
                </div>
                <Button
                  variant="ghost"
                  icon={GitCompareArrows}
                  aria-label={`${t.compare}: ${t.version(version)}`}
                  onClick={() => setCompared(version)}
                >
                  {t.compare}
                </Button>
              </li>
            ))}
          </ol>
        )}
      </Loaded>
      <Dialog
        isWide
        isOpen={compared !== undefined}
        onClose={() => setCompared(undefined)}
        title={t.compareTitle(compared ?? 0)}
      >
        {compared !== undefined && <Comparison id={skill.id} version={compared} text={text} />}
        <FormActions>
          {isDirty && <p className="mr-auto self-center text-sm text-muted">{words.unsaved}</p>}
          <Button onClick={() => setCompared(undefined)}>{words.close}</Button>
          {canRestore && (
            <Button
              variant="primary"
              icon={History}
              isPending={isPending}
              disabled={isDirty || compared === skill.version}
              onClick={() =>
                compared !== undefined &&
                void onRestore(compared).then(
                  () => setCompared(undefined),
                  () => setCompared(undefined),
                )
              }
            >
              {t.restore}
            </Button>
          )}
        </FormActions>
      </Dialog>
    </Section>
  )
}

function Comparison({ id, version, text }: { id: string; version: number; text: string }) {
  const saved = useQuery(versionQuery(id, version))
  return (
    <Loaded query={saved} lines={6}>
      {({ content }) =>
        content === text ? (
          <p className="text-muted">{t.sameText}</p>
        ) : (
          <Suspense fallback={<Skeleton lines={6} />}>
            <TextComparison before={content} after={text} label={t.yourText} />
          </Suspense>
        )
      }
    </Loaded>
  )
}

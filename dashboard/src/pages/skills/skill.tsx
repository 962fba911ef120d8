import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { Archive, ArchiveRestore, ArrowLeft, CircleCheck, GitBranch, Lock, TriangleAlert } from 'lucide-react'
import { lazy, type ReactNode, Suspense, useState } from 'react'
import { ApiError, api, unwrap } from '../../session/api.ts'
import { useOrgPath } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Badge, Notice } from '../../ui/display/layout.tsx'
import { FormError, Skeleton } from '../../ui/display/states.tsx'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { LeaveGuard } from '../../ui/overlays/unsaved.tsx'
import { words } from '../../ui/words.ts'
import { AgentView } from './agent-view.tsx'
import { Domains } from './domains.tsx'
import { type Skill, skillQuery } from './queries.ts'
import { readSkill, type SkillProblem, template } from './skill-text.ts'
import { t } from './texts.ts'
import { Versions } from './versions.tsx'

const MarkdownEditor = lazy(() => import('./editor.tsx').then(({ MarkdownEditor }) => ({ default: MarkdownEditor })))

/** A skill that isn't saved yet. */
export function NewSkill({ start }: { start: string }) {
  const [text, setText] = useState(start)
  const navigate = useNavigate()
  const orgPath = useOrgPath()
  const queryClient = useQueryClient()
  const { name, problems } = readSkill(text)
  const create = useMutation({
    mutationFn: () => unwrap(api.POST('/organization-skills', { body: { content: text } })),
    async onSuccess({ warnings, ...skill }) {
      queryClient.setQueryData(skillQuery(skill.id).queryKey, skill)
      notify(t.created(skill.name), { ...(warnings && { text: `${t.warnings} ${warnings.join(', ')}` }) })
      void queryClient.invalidateQueries({ queryKey: ['skills'] })
      await navigate({ to: orgPath(`skills/${skill.id}`), ignoreBlocker: true })
    },
  })
  const save = () => problems.length === 0 && !create.isPending && create.mutate()
  return (
    <>
      <LeaveGuard isDirty={text !== template && !create.isSuccess} />
      <Header title={name || t.newSkill}>
        <Button variant="primary" isPending={create.isPending} disabled={problems.length > 0} onClick={save}>
          {t.create}
        </Button>
      </Header>
      <FormError error={create.error} />
      <Columns editor={<Editor text={text} onText={setText} onSave={save} problems={problems} />}>
        <AgentView text={text} />
      </Columns>
    </>
  )
}

/** Hostnames, one per line; none means everywhere. */
const toLines = (domains: readonly string[]) => domains.filter((domain) => domain !== '*').join('\n')
const toDomains = (lines: string) => {
  const domains = lines
    .split(/[\n,]/)
    .map((line) => line.trim())
    .filter(Boolean)
  return domains.length > 0 ? domains : ['*']
}

export function SkillPage({ skill }: { skill: Skill }) {
  const [base, setBase] = useState(skill)
  const [text, setText] = useState(skill.content)
  const [domains, setDomains] = useState(() => toLines(skill.domains))
  const queryClient = useQueryClient()
  const navigate = useNavigate()
  const orgPath = useOrgPath()
  const { problems } = readSkill(text)
  const isBuiltIn = base.location !== null
  const isSynced = base.source !== null
  const hasNewDomains = toDomains(domains).join() !== base.domains.join()
  const isDirty = text !== base.content || hasNewDomains
  // Someone else's version appears, unless the user is editing too.
  if (!isDirty && skill.version > base.version) take(skill)

  function take(next: Skill) {
    setBase(next)
    setText(next.content)
    setDomains(toLines(next.domains))
  }
  function keep({ warnings, ...next }: Skill & { warnings?: string[] }) {
    queryClient.setQueryData(skillQuery(next.id).queryKey, next)
    take(next)
    void queryClient.invalidateQueries({ queryKey: ['skills', 'list'] })
    return warnings
  }
  const path = { id: base.id }
  const save = useMutation({
    mutationFn(on: Skill) {
      const replace = { type: 'replace' as const, before: on.content, after: text, expected_matches: 1 }
      const body = {
        expected_version: on.version,
        ...(text !== on.content && { patch: { version: 1 as const, operations: [replace] } }),
        ...(hasNewDomains && { domains: toDomains(domains) }),
      }
      return unwrap(api.PATCH('/organization-skills/{id}', { params: { path }, body }))
    },
    onSuccess(next) {
      const warnings = keep(next)
      notify(t.saved(next.name, next.version), { ...(warnings && { text: `${t.warnings} ${warnings.join(', ')}` }) })
    },
  })
  const latest = useMutation({ mutationFn: () => queryClient.fetchQuery({ ...skillQuery(base.id), staleTime: 0 }) })
  const restore = useMutation({
    mutationFn: (version: number) =>
      unwrap(api.POST('/organization-skills/{id}/restore', { params: { path }, body: { version } })),
    onSuccess(next, version) {
      keep(next)
      notify(t.restored(version))
    },
  })
  const archive = useMutation({
    mutationFn: () => unwrap(api.DELETE('/organization-skills/{id}', { params: { path } })),
    async onSuccess(archived) {
      queryClient.setQueryData(skillQuery(base.id).queryKey, archived)
      void queryClient.invalidateQueries({ queryKey: ['skills', 'list'] })
      await navigate({ to: orgPath('skills'), ignoreBlocker: true })
      notify(t.archived(base.name), { undo: () => void bringBack(base) })
    },
    onError: (error) => notifyError(t.archiveFailed, error),
  })
  /** Outlives this page, which is left when a skill is archived. */
  async function bringBack({ id, version }: Skill) {
    try {
      await unwrap(api.POST('/organization-skills/{id}/restore', { params: { path: { id } }, body: { version } }))
      await queryClient.invalidateQueries({ queryKey: ['skills'] })
    } catch (error) {
      notifyError(t.restoreFailed, error as Error)
    }
  }
  const submit = () => isDirty && problems.length === 0 && !save.isPending && save.mutate(base)
  const conflict =
    save.error instanceof ApiError && save.error.code === 'STALE_VERSION' ? Number(save.error.data.version) : undefined
  async function resolve(wins: 'mine' | 'theirs') {
    const theirs = await latest.mutateAsync()
    save.reset()
    if (wins === 'theirs') return take(theirs)
    setBase(theirs)
    save.mutate(theirs)
  }
  return (
    <>
      <LeaveGuard isDirty={isDirty} />
      <Header title={base.name} badge={isBuiltIn ? t.builtIn : t.version(base.version)}>
        {isDirty && (
          <Button
            onClick={() => {
              save.reset()
              take(base)
            }}
          >
            {words.discard}
          </Button>
        )}
        {!isBuiltIn && !base.archived_at && (
          <>
            {!isDirty && !isSynced && (
              <Button icon={Archive} isPending={archive.isPending} onClick={() => archive.mutate()}>
                {t.archive}
              </Button>
            )}
            <Button
              variant="primary"
              isPending={save.isPending}
              disabled={!isDirty || problems.length > 0}
              onClick={submit}
            >
              {t.save}
            </Button>
          </>
        )}
      </Header>
      {isBuiltIn && <Notice icon={Lock}>{t.builtInNotice}</Notice>}
      {base.source && <Source source={base.source} />}
      {base.archived_at && !isSynced && (
        <Notice tone="wait" icon={Archive}>
          <div className="flex flex-wrap items-center gap-2">
            {t.archivedNotice}
            <Button icon={ArchiveRestore} isPending={restore.isPending} onClick={() => restore.mutate(base.version)}>
              {t.bringBack}
            </Button>
          </div>
        </Notice>
      )}
      {conflict !== undefined && (
        <div role="alert">
          <Notice tone="wait" icon={TriangleAlert}>
            <p className="font-[550]">{t.conflict}</p>
            <p>{t.conflictText(conflict)}</p>
            <div className="mt-2 flex flex-wrap gap-2 text-text">
              <Button isPending={latest.isPending} onClick={() => void resolve('mine')}>
                {t.saveAnyway(conflict)}
              </Button>
              <Button isPending={latest.isPending} onClick={() => void resolve('theirs')}>
                {t.takeTheirs}
              </Button>
            </div>
          </Notice>
        </div>
      )}
      <FormError error={conflict === undefined ? (save.error ?? restore.error) : latest.error} />
      <Columns
        editor={
          <Editor
            text={text}
            onText={setText}
            onSave={submit}
            problems={isBuiltIn || isSynced ? undefined : problems}
            isReadOnly={isBuiltIn || isSynced || base.archived_at !== null}
          />
        }
      >
        <AgentView text={text} />
        {!isBuiltIn && (
          <>
            <Domains value={domains} onValue={setDomains} />
            <Versions
              skill={base}
              text={text}
              known={conflict}
              isDirty={isDirty}
              isPending={restore.isPending}
              canRestore={!isSynced}
              onRestore={(version) => restore.mutateAsync(version)}
            />
          </>
        )}
      </Columns>
    </>
  )
}

/** Says why the text can't be edited here, and where to edit it. */
function Source({ source }: { source: NonNullable<Skill['source']> }) {
  const { repository, path, commit, url, edit_url } = source
  return (
    <Notice icon={GitBranch}>
      <p>{t.syncedNotice(repository)}</p>
      <p className="flex flex-wrap items-baseline gap-x-3">
        <WebLink url={url} className="mono wrap-anywhere">
          {path}
        </WebLink>
        {commit && (
          <span className="text-muted">
            {t.commit} <span className="mono">{commit.slice(0, 7)}</span>
          </span>
        )}
        <WebLink url={edit_url}>{t.editOnGithub}</WebLink>
      </p>
    </Notice>
  )
}

/** Only web addresses become links. */
function WebLink({ url, className = '', children }: { url: string; className?: string; children: string }) {
  if (!/^https?:\/\//.test(url)) return <span className={className}>{children}</span>
  return (
    <a href={url} target="_blank" rel="noopener noreferrer" className={`link ${className}`}>
      {children}
    </a>
  )
}

function Header({ title, badge, children }: { title: string; badge?: string; children: ReactNode }) {
  const orgPath = useOrgPath()
  return (
    <header className="mb-4">
      <Link to={orgPath('skills')} className="link mb-1 inline-flex items-center gap-1 text-sm">
        <ArrowLeft size={14} strokeWidth={1.5} aria-hidden /> {t.back}
      </Link>
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-3">
        <div className="flex min-w-0 items-center gap-2">
          <h1 className="truncate text-xl font-semibold tracking-[-0.02em]">{title}</h1>
          {badge && <Badge>{badge}</Badge>}
        </div>
        <div className="flex flex-wrap gap-2">{children}</div>
      </div>
    </header>
  )
}

const Columns = ({ editor, children }: { editor: ReactNode; children: ReactNode }) => (
  <div className="grid items-start gap-3 lg:grid-cols-[minmax(0,1fr)_320px] xl:grid-cols-[minmax(0,1fr)_380px]">
    {editor}
    <div className="grid min-w-0 gap-3">{children}</div>
  </div>
)

function Editor({
  text,
  onText,
  onSave,
  problems,
  isReadOnly = false,
}: {
  text: string
  onText: (text: string) => void
  onSave: () => void
  /** Undefined for texts that can't be changed. */
  problems: SkillProblem[] | undefined
  isReadOnly?: boolean
}) {
  return (
    <div className="card flex h-[calc(100dvh-210px)] min-h-[440px] flex-col overflow-hidden focus-within:border-accent lg:sticky lg:top-16">
      <div className="min-h-0 flex-1">
        <Suspense fallback={<Skeleton lines={8} className="p-4" />}>
          <MarkdownEditor label={t.editor} text={text} onText={onText} isReadOnly={isReadOnly} onSave={onSave} />
        </Suspense>
      </div>
      {problems && !isReadOnly && (
        <div className="border-t border-line bg-sunken px-3.5 py-2 text-sm" role="status" aria-live="polite">
          {problems.length === 0 ? (
            <p className="flex items-center gap-2 text-accent">
              <CircleCheck size={16} strokeWidth={1.5} className="shrink-0" aria-hidden /> {t.valid}
              <span className="ml-auto hidden text-muted md:inline">{t.saveHint}</span>
            </p>
          ) : (
            <>
              <p className="font-[550]">{t.problems}</p>
              <ul className="text-danger">
                {problems.map((problem) => (
                  <li key={problem}>{t[problem]}</li>
                ))}
              </ul>
            </>
          )}
        </div>
      )}
    </div>
  )
}

import { useMutation, useQuery } from '@tanstack/react-query'
import { Play } from 'lucide-react'
import { type FormEvent, useRef, useState } from 'react'
import { callMcpTool } from '../../session/mcp.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Segments } from '../../ui/controls/choice.tsx'
import { Field, Input, Select, Textarea } from '../../ui/controls/form.tsx'
import { Notice } from '../../ui/display/layout.tsx'
import { EmptyState, FormError, Loaded } from '../../ui/display/states.tsx'
import { FormActions, Sheet } from '../../ui/overlays/overlays.tsx'
import { words } from '../../ui/words.ts'
import { type ArgumentField, fieldsOf, readArguments, readObject, type Texts, writeTexts } from './arguments.ts'
import { CallResult } from './call-result.tsx'
import { runsUnasked, type Tool, toolsQuery, useHubFilters } from './data.ts'
import { t } from './texts.ts'

/** Calls the tool in the URL, through the MCP endpoint, as an assistant of the user would. */
export function CallSheet() {
  const [filters, setFilters] = useHubFilters()
  const tools = useQuery(toolsQuery)
  const tool = tools.data?.tools.find(
    ({ name, sources = [] }) =>
      name === filters.tool && (filters.on === '' || sources.some(({ sourceId }) => sourceId === filters.on)),
  )
  return (
    <Sheet
      isOpen={filters.tool !== ''}
      onClose={() => setFilters({ tool: '', on: '' })}
      title={tool?.title || filters.tool}
      text={tool?.description}
    >
      <Loaded query={tools}>
        {() =>
          tool ? <CallForm key={filters.tool} tool={tool} /> : <EmptyState title={t.goneTitle} text={t.goneText} />
        }
      </Loaded>
    </Sheet>
  )
}

function CallForm({ tool }: { tool: Tool }) {
  const [filters, setFilters] = useHubFilters()
  const fields = fieldsOf(tool.inputSchema)
  const [wantedMode, setMode] = useState<'form' | 'json'>('form')
  const mode = fields ? wantedMode : 'json'
  const [typed, setTyped] = useState<Texts>({})
  const [json, setJson] = useState('{}')
  const [problems, setProblems] = useState<Texts>({})
  const aborts = useRef<AbortController>(undefined)
  const call = useMutation({
    async mutationFn(args: Record<string, unknown>) {
      aborts.current = new AbortController()
      const started = performance.now()
      const result = await callMcpTool(
        'hub_call_tool',
        { tool_name: tool.name, args, ...(filters.on && { source_id: filters.on }) },
        aborts.current.signal,
      )
      return { result, ms: performance.now() - started }
    },
  })
  const isCancelled = call.error?.name === 'AbortError'

  function changeMode(next: 'form' | 'json') {
    if (next === 'json') setJson(JSON.stringify(readArguments(fields ?? [], typed).args, null, 2))
    else {
      const { value, problem } = readObject(json)
      if (problem) return setProblems({ json: problem })
      setTyped(writeTexts(fields ?? [], value ?? {}))
    }
    setProblems({})
    setMode(next)
  }
  function submit(event: FormEvent) {
    event.preventDefault()
    if (call.isPending) return
    if (mode === 'json') {
      const { value, problem } = readObject(json)
      setProblems(problem ? { json: problem } : {})
      return value && call.mutate(value)
    }
    const { args, problems: found } = readArguments(fields ?? [], typed)
    setProblems(found)
    if (Object.keys(found).length === 0) call.mutate(args)
  }
  const pages = (tool.sources ?? []).map(
    ({ sourceId, title, origin }) => [sourceId, `${title || t.untitled} (${origin})`] as const,
  )
  return (
    <form onSubmit={submit} className="grid gap-4" noValidate>
      {pages.length > 1 && (
        <Field label={t.page}>
          <Select className="w-full" value={filters.on} options={pages} onValue={(on) => setFilters({ on })} />
        </Field>
      )}
      {fields && fields.length > 0 && (
        <Segments
          label={t.input}
          value={mode}
          options={[
            ['form', t.asForm],
            ['json', t.asJson],
          ]}
          onValue={changeMode}
        />
      )}
      {mode === 'json' ? (
        <Field label={t.arguments} error={problems.json}>
          <Textarea
            className="mono"
            rows={8}
            value={json}
            onChange={(event) => setJson(event.target.value)}
            spellCheck={false}
          />
        </Field>
      ) : fields?.length === 0 ? (
        <p className="text-muted">{t.noInput}</p>
      ) : (
        fields?.map((field) => (
          <ArgumentInput
            key={field.name}
            field={field}
            value={typed[field.name] ?? ''}
            problem={problems[field.name]}
            onValue={(text) => setTyped({ ...typed, [field.name]: text })}
          />
        ))
      )}
      <div aria-live="polite">
        {call.isPending && (
          <Notice tone={runsUnasked(tool) ? 'plain' : 'wait'}>{runsUnasked(tool) ? t.running : t.waiting}</Notice>
        )}
        {isCancelled && <p className="text-sm text-muted">{t.cancelled}</p>}
      </div>
      {!isCancelled && <FormError error={call.error} />}
      <FormActions>
        {call.isPending && <Button onClick={() => aborts.current?.abort()}>{words.cancel}</Button>}
        <Button type="submit" variant="primary" icon={Play} isPending={call.isPending}>
          {t.call}
        </Button>
      </FormActions>
      {call.data && <CallResult result={call.data.result} ms={call.data.ms} />}
    </form>
  )
}

function ArgumentInput({
  field: { label, hint, isRequired, kind, choices },
  value,
  problem,
  onValue,
}: {
  field: ArgumentField
  value: string
  problem: string | undefined
  onValue: (text: string) => void
}) {
  const options: [string, string][] =
    kind === 'boolean'
      ? [
          ['true', t.yes],
          ['false', t.no],
        ]
      : choices.map((choice) => [choice, choice])
  return (
    <Field label={label} hint={hint} error={problem} isOptional={!isRequired}>
      {kind === 'boolean' || kind === 'choice' ? (
        <Select className="w-full" value={value} options={[['', t.notSet], ...options]} onValue={onValue} />
      ) : kind === 'json' ? (
        <Textarea
          className="mono"
          rows={3}
          placeholder="{}"
          value={value}
          onChange={(event) => onValue(event.target.value)}
          spellCheck={false}
        />
      ) : (
        <Input
          value={value}
          inputMode={kind === 'text' ? 'text' : 'decimal'}
          onChange={(event) => onValue(event.target.value)}
          autoComplete="off"
        />
      )}
    </Field>
  )
}

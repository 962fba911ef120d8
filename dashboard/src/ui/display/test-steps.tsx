import { CircleCheck, CircleMinus, CircleX } from 'lucide-react'
import { words } from '../words.ts'

const icons = { ok: CircleCheck, failed: CircleX, skipped: CircleMinus }
const colors = { ok: 'text-accent', failed: 'text-danger', skipped: 'text-faint' }

/** The steps of a test, one by one: what each has found, or why it failed. */
export function TestSteps<Step extends string>({
  steps,
  names,
}: {
  steps: readonly { step: Step; status: keyof typeof icons; message: string }[]
  names: Record<Step, string>
}) {
  return (
    <ol className="grid gap-2">
      {steps.map(({ step, status, message }) => {
        const Icon = icons[status]
        return (
          <li key={step} className="flex gap-2">
            <Icon size={16} strokeWidth={1.5} className={`mt-0.5 shrink-0 ${colors[status]}`} aria-hidden />
            <div className="min-w-0">
              <p className="font-[550]">
                {names[step]} <span className="font-[450] text-muted">· {words.stepStates[status]}</span>
              </p>
              <p className="text-sm wrap-anywhere text-muted">{message}</p>
            </div>
          </li>
        )
      })}
    </ol>
  )
}

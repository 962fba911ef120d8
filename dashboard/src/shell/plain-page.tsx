import type { ReactNode } from 'react'
import mark from '../mark.svg'

/** A page outside of an organization: one card with the mark. */
export function PlainPage({ title, text, children }: { title: string; text?: string; children?: ReactNode }) {
  return (
    <main className="grid min-h-dvh place-items-center p-6">
      <div className="card w-full max-w-[420px] p-7">
        <img src={mark} alt="Inlay" width="36" height="36" className="mb-4" />
        <h1 className="text-xl font-semibold tracking-[-0.02em]">{title}</h1>
        {text && <p className="mt-1 text-muted">{text}</p>}
        {children && <div className="mt-5">{children}</div>}
      </div>
    </main>
  )
}

import type { RecordedCall } from '../../frame/calls.ts'

/** A call from before this page was loaded, as the panel shows it. */
export interface EarlierCall {
  id: string
  name: string
  client: string | undefined
  /** When it started. */
  at: Date
  state: 'done' | 'failed' | 'declined' | 'cancelled'
  message?: string
}

export const describeEarlierCall = (call: RecordedCall): EarlierCall => ({
  id: call.call_id,
  name: call.name,
  client: call.client_name,
  at: new Date(call.at),
  ...describeOutcome(call),
})

function describeOutcome({ outcome, failure_code }: RecordedCall): Pick<EarlierCall, 'state' | 'message'> {
  if (outcome === 'succeeded') return { state: 'done' }
  if (outcome === 'cancelled') return { state: 'cancelled' }
  if (outcome === 'timed_out') return { state: 'failed', message: 'It timed out' }
  if (outcome === 'refused' && failure_code === 'DECLINED') return { state: 'declined' }
  if (failure_code === 'APPROVAL_NEEDED') return { state: 'failed', message: 'No page was open to ask you' }
  if (outcome === 'refused') return { state: 'failed', message: 'Your organization doesn’t allow it' }
  return { state: 'failed' }
}

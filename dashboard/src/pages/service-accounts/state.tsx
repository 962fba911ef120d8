import { Badge } from '../../ui/display/layout.tsx'
import { type Account, isExpired } from './data.ts'
import { t } from './texts.ts'

/** Whether the account works, or is between two keys. */
export function State({ account }: { account: Account }) {
  if (isExpired(account)) return <Badge>{t.expired}</Badge>
  return account.previous_key ? <Badge tone="wait">{t.rotating}</Badge> : <Badge tone="good">{t.active}</Badge>
}

import { route } from '../foundation/operation.ts'
import type { Room } from '../foundation/room.ts'
import type { Service } from '../foundation/service.ts'
import type { Models } from '../models/models.ts'
import type { PreviewTokens } from '../tickets/preview-tokens.ts'
import * as contract from './contract.ts'
import { startPreview } from './preview.ts'

export const previewRoom: Room<Service & { models: Models; previewTokens: PreviewTokens }> = {
  tags: {},
  routes: [route(contract.startPreview, startPreview)],
  tools: [],
}

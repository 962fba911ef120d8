import { Hono } from 'hono'

export const serveApiDocs = (): Hono => new Hono()

import pg from 'pg'
import { vi } from 'vitest'

/** What a statement read at its worst. */
interface StatementPlan {
  text: string
  /** What the test was doing at that time. */
  during: string
  /** Pages read from tables and indexes beyond those that the rows it wrote need. */
  extraBuffers: number
  /** Rows read from tables beyond those that it returned or wrote. */
  extraRows: number
}

/** A row is found and written, in a table with several indexes and in each partition's. */
const buffersPerWrittenRow = 15

interface PlanNode {
  'Node Type': string
  'Parent Relationship'?: string
  'Relation Name'?: string
  'Index Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  'Rows Removed by Index Recheck'?: number
  'Shared Hit Blocks': number
  'Shared Read Blocks': number
  Plans?: PlanNode[]
}

/**
 * Lets PostgreSQL itself report the plan of every statement of a database, as it was executed, to the client that sent
 * it, and collects the plans of all clients that connect from now on.
 */
export async function collectPlans(superuser: pg.Client) {
  const plans = new Map<string, StatementPlan>()
  let during = ''
  const { connect } = pg.Client.prototype
  const observed = vi.spyOn(pg.Client.prototype, 'connect').mockImplementation(function (
    this: pg.Client,
    ...args: unknown[]
  ) {
    this.on('notice', ({ message = '' }) => {
      const [, json] = /^duration: .*?plan:\n(.*)$/s.exec(message) ?? []
      if (json !== undefined) add(JSON.parse(json))
    })
    return Reflect.apply(connect, this, args)
  } as typeof connect)

  function add({ 'Query Text': query, Plan: plan }: { 'Query Text': string; Plan: PlanNode }) {
    const text = query.replace(/\s+/g, ' ').trim()
    const writtenRows = countWrittenRows(plan)
    const seen = {
      text,
      during,
      extraBuffers: countBuffers(plan) - buffersPerWrittenRow * writtenRows,
      extraRows: countReadRows(plan) - plan['Actual Rows'] - writtenRows,
    }
    const worst = plans.get(text)
    if (!worst || costOf(seen) > costOf(worst)) plans.set(text, seen)
  }

  const settings = {
    session_preload_libraries: 'auto_explain',
    'auto_explain.log_min_duration': 0,
    'auto_explain.log_analyze': 'on',
    'auto_explain.log_timing': 'off',
    'auto_explain.log_buffers': 'on',
    'auto_explain.log_nested_statements': 'on',
    'auto_explain.log_format': 'json',
    'auto_explain.log_level': 'notice',
  }
  const { rows } = await superuser.query('select current_database() as name')
  const name = pg.escapeIdentifier(rows[0].name)
  for (const [setting, value] of Object.entries(settings))
    await superuser.query(`alter database ${name} set ${setting} = ${value}`)
  // The library is loaded when a client connects.
  await superuser.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  )
  return {
    plans,
    /** Says what the test is doing. */
    begin(what: string) {
      during = what
    },
    stop: () => observed.mockRestore(),
  }
}

const costOf = ({ extraBuffers, extraRows }: StatementPlan) => Math.max(extraBuffers, 0) + Math.max(extraRows, 0)

/**
 * Counts only what is read of tables and their indexes: a function that a node calls reports its statements by itself, and
 * the catalog, which plans need on a new connection, doesn't grow.
 */
function countBuffers(node: PlanNode): number {
  const own = isOfTable(node) ? buffersOf(node) - sumOf(node, buffersOf) : 0
  // The plan of a statement doesn't include a writing CTE that it doesn't read from.
  return Math.max(own, 0) + sumOf(node, countBuffers)
}

const buffersOf = (node: PlanNode) => node['Shared Hit Blocks'] + node['Shared Read Blocks']

function isOfTable(node: PlanNode): boolean {
  const name = node['Relation Name'] ?? node['Index Name']
  return name !== undefined && !name.startsWith('pg_')
}

function countReadRows(node: PlanNode): number {
  const { 'Rows Removed by Filter': filtered = 0, 'Rows Removed by Index Recheck': rechecked = 0 } = node
  // The rows of a bitmap index scan are those of the scan above it.
  const isScan = isOfTable(node) && node['Relation Name'] !== undefined && node['Node Type'].endsWith('Scan')
  const own = isScan ? (node['Actual Rows'] + filtered + rechecked) * node['Actual Loops'] : 0
  return own + sumOf(node, countReadRows)
}

function countWrittenRows(node: PlanNode): number {
  // The other plans below a write are those of its CTEs and subqueries.
  const rowsOf = (one: PlanNode) =>
    one['Parent Relationship'] === 'Outer' ? one['Actual Rows'] * one['Actual Loops'] : 0
  return (node['Node Type'] === 'ModifyTable' ? sumOf(node, rowsOf) : 0) + sumOf(node, countWrittenRows)
}

const sumOf = ({ Plans = [] }: PlanNode, count: (node: PlanNode) => number) =>
  Plans.reduce((sum, each) => sum + count(each), 0)

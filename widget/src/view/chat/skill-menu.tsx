import type { JSX } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { AgentInfo } from '../../chat/state.ts'
import { plainText } from '../../frame/plain-text.ts'
import { useTexts } from '../context.ts'

export type Skill = AgentInfo['skills'][number]

/** The skills that fit what the user has typed after the slash. */
export function findSkills(skills: readonly Skill[], text: string): readonly Skill[] {
  const [, words] = /^\/(\S*)$/.exec(text) ?? []
  if (words === undefined) return []
  const wanted = words.toLowerCase()
  const fits = ({ name, description }: Skill) =>
    name.toLowerCase().includes(wanted) || description.toLowerCase().includes(wanted)
  const startsSo = ({ name }: Skill) => Number(name.toLowerCase().startsWith(wanted))
  return skills.filter(fits).toSorted((one, other) => startsSo(other) - startsSo(one))
}

/** Separates a skill that was typed out: `/refunds where is my money` */
export function splitSkill(skills: readonly Skill[], text: string): { text: string; skill: string | undefined } {
  const [, name, rest] = /^\/(\S+)\s+([\s\S]+)$/.exec(text) ?? []
  const isKnown = skills.some((skill) => skill.name === name)
  return isKnown && rest !== undefined ? { text: rest, skill: name } : { text, skill: undefined }
}

interface SkillMenuProps {
  id: string
  skills: readonly Skill[]
  active: number
  onChoose(skill: Skill): void
}

export const optionId = (id: string, index: number): string => `${id}-${index}`

export function SkillMenu({ id, skills, active, onChoose }: SkillMenuProps): JSX.Element {
  const { say } = useTexts()
  const list = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => list.current?.children[active]?.scrollIntoView({ block: 'nearest' }), [active])
  return (
    <div class="skill-menu" role="listbox" id={id} aria-label={say('skills')} ref={list}>
      {skills.map((skill, index) => (
        <div
          key={skill.name}
          id={optionId(id, index)}
          role="option"
          aria-selected={index === active}
          // The text field keeps the focus.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => onChoose(skill)}
          onKeyDown={undefined}
          tabIndex={-1}
        >
          <b>/{plainText(skill.name, 80)}</b>
          <span>{plainText(skill.description, 160)}</span>
        </div>
      ))}
    </div>
  )
}

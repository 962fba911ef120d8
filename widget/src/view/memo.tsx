import { Component, type ComponentClass, type FunctionComponent } from 'preact'

/** Renders again only if one of the properties has changed. */
export function memo<Props extends object>(Inner: FunctionComponent<Props>): ComponentClass<Props> {
  return class extends Component<Props> {
    override shouldComponentUpdate(next: Props) {
      const before = this.props as Record<string, unknown>
      return Object.entries(next).some(([name, value]) => before[name] !== value)
    }
    override render() {
      return <Inner {...this.props} />
    }
  }
}

package cli

import (
	"fmt"
	"strings"
)

// Reference describes all commands in Markdown for docs/.
func Reference(extra ...Command) string {
	var b strings.Builder
	b.WriteString("Every command that calls an agent also has the common options:\n\n")
	referenceFlags(&b, commonFlags)
	b.WriteString("\nEvery command that shows an answer also has:\n\n")
	referenceFlags(&b, renderFlags)
	for _, c := range merge(tree, extra) {
		referenceCommand(&b, "berth", c)
	}
	return b.String()
}

func referenceCommand(b *strings.Builder, path string, c Command) {
	path += " " + c.Name
	if c.Hidden {
		return
	}
	if c.Run != nil {
		fmt.Fprintf(b, "\n## `%s`\n\n%s.\n", strings.TrimSpace(path+" "+c.Args), c.Synopsis)
		if c.Help != "" {
			fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.Trim(c.Help, "\n"))
		}
		if c.Examples != "" {
			fmt.Fprintf(b, "\n```sh\n%s\n```\n", c.Examples)
		}
		c.Renders = false // the first table of the page has its flags
		if flags := c.ownFlags(); len(flags) > 0 {
			b.WriteString("\n")
			referenceFlags(b, flags)
		}
	}
	for _, s := range c.Sub {
		referenceCommand(b, path, s)
	}
}

func referenceFlags(b *strings.Builder, flags []Flag) {
	b.WriteString("| option | meaning |\n|---|---|\n")
	for _, f := range flags {
		fmt.Fprintf(b, "| `%s` | %s |\n", f.head(), f.about())
	}
}

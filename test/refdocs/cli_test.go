package refdocs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/agent/commands"
	"berth/cli"
	"berth/cli/command"
)

// commandLine describes all commands.
func commandLine(*testing.T) string {
	var b strings.Builder
	b.WriteString("Every command that calls an agent also has the common options:\n\n")
	flagTable(&b, command.CommonFlags)
	b.WriteString("\nEvery command that shows an answer also has:\n\n")
	flagTable(&b, command.RenderFlags)
	for _, c := range cli.Tree(commands.All()...) {
		describeCommand(&b, "berth", c)
	}
	return b.String()
}

func describeCommand(b *strings.Builder, path string, c command.Command) {
	path += " " + c.Name
	if c.Same != "" {
		fmt.Fprintf(b, "\n## `%s`\n\nThe same as `berth %s`.\n", strings.TrimSpace(path+" "+c.Args), c.Same)
		return
	}
	if c.Run != nil {
		fmt.Fprintf(b, "\n## `%s`\n\n%s.\n",
			strings.TrimSpace(path+" "+c.Args), c.Synopsis)
		if c.Help != "" {
			fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.Trim(c.Help, "\n"))
		}
		if c.Examples != "" {
			fmt.Fprintf(b, "\n```sh\n%s\n```\n", c.Examples)
		}
		flags := slices.Clone(c.Flags)
		if c.Acts {
			flags = append(flags, command.ActFlags...)
		}
		if len(flags) > 0 {
			b.WriteString("\n")
			flagTable(b, flags)
		}
	}
	for _, s := range c.Sub {
		describeCommand(b, path, s)
	}
}

func flagTable(b *strings.Builder, flags []command.Flag) {
	b.WriteString("| option | meaning |\n|---|---|\n")
	for _, f := range flags {
		fmt.Fprintf(b, "| `%s` | %s |\n", f.Head(), f.About())
	}
}

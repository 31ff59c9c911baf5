package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// The groups of the top-level help, in their order.
const (
	groupWork    = "Run things"
	groupStorage = "Storage"
	groupCluster = "The cluster"
	GroupSelf    = "berth itself" // also of the commands of other packages
)

var groupOrder = []string{groupWork, groupStorage, groupCluster, GroupSelf}

// printGroup lists a group's commands.
func (cmd *Command) printGroup(w io.Writer, path string) {
	fmt.Fprintf(w, "Usage: %s <command> [options] [arguments]\n", path)
	if path == "berth" {
		fmt.Fprint(w, "\n  A clustered control plane for CSI storage and the jobs that use it.\n")
	} else if cmd.Help != "" {
		fmt.Fprintf(w, "\n%s\n", indent(cmd.Help))
	} else if cmd.Synopsis != "" {
		fmt.Fprintf(w, "\n  %s.\n", cmd.Synopsis)
	}
	for _, group := range groupsOf(cmd.Sub) {
		title := group
		if title == "" {
			title = "Commands"
		}
		fmt.Fprintf(w, "\n%s\n", title)
		for _, s := range cmd.Sub {
			if s.Group == group && !s.Hidden {
				fmt.Fprintf(w, "  %-12s  %s\n", s.Name, s.Synopsis)
			}
		}
	}
	fmt.Fprintf(w, "\nHelp for one of them: %s <command> -h\n", path)
}

// groupsOf returns the groups of commands: first the known ones in their order, then others.
func groupsOf(cmds []Command) []string {
	var groups []string
	has := func(g string) bool {
		return slices.ContainsFunc(cmds, func(c Command) bool { return c.Group == g && !c.Hidden })
	}
	for _, g := range groupOrder {
		if has(g) {
			groups = append(groups, g)
		}
	}
	for _, c := range cmds {
		if !slices.Contains(groups, c.Group) {
			groups = append(groups, c.Group)
		}
	}
	return groups
}

// printHelp explains one command.
func (cmd *Command) printHelp(w io.Writer, path string) {
	usage := "Usage: " + path + " [options] " + cmd.Args
	fmt.Fprintf(w, "%s\n\n  %s.\n", strings.TrimSpace(usage), cmd.Synopsis)
	if cmd.Help != "" {
		fmt.Fprintf(w, "\n%s\n", indent(cmd.Help))
	}
	if cmd.Examples != "" {
		fmt.Fprintf(w, "\nExamples\n%s\n", indent(cmd.Examples))
	}
	own := slices.Clone(cmd.Flags)
	if cmd.Renders {
		own = append(own, renderFlags...)
	}
	if cmd.Acts {
		own = append(own, actFlags...)
	}
	printFlags(w, "Options", own)
	if !cmd.Local {
		printFlags(w, "Common options", commonFlags)
	}
}

func printFlags(w io.Writer, title string, flags []Flag) {
	if len(flags) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, f := range flags {
		fmt.Fprintf(w, "  %s\n%s\n", f.head(), wrap(f.about()+".", "      "))
	}
}

// helpWidth is the width of help in characters.
const helpWidth = 80

// wrap breaks a text into lines of helpWidth, each after the margin.
func wrap(text, margin string) string {
	var lines []string
	line := margin
	for _, word := range strings.Fields(text) {
		if line != margin && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > helpWidth {
			lines = append(lines, line)
			line = margin
		}
		if line != margin {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}

func indent(s string) string {
	lines := strings.Split(strings.Trim(s, "\n"), "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = "  " + l
		}
	}
	return strings.Join(lines, "\n")
}

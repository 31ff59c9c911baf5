package command

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The groups of the top-level help, in their order.
const (
	GroupWork    = "Run things"
	GroupStorage = "Storage"
	GroupCluster = "The cluster"
	GroupSelf    = "berth itself" // also of the commands of other packages
	GroupShort   = "Short forms"
)

// printGroup lists a group's commands.
func (cmd *Command) printGroup(w io.Writer, path string) {
	fmt.Fprintf(w, "Usage: %s <command> [options] [arguments]\n\n  %s.\n", path, cmd.Synopsis)
	group := ""
	for i, s := range cmd.Sub {
		if s.Hidden {
			continue
		}
		if i == 0 || s.Group != group {
			group = s.Group
			fmt.Fprintf(w, "\n%s\n", cmp.Or(group, "Commands"))
		}
		about := s.Synopsis
		if s.Same != "" {
			about = "The same as " + s.Same
		}
		fmt.Fprintf(w, "  %-12s  %s\n", s.Name, about)
	}
	fmt.Fprintf(w, "\nHelp for one of them: %s <command> -h\n", path)
}

// printHelp explains one command.
func (cmd *Command) printHelp(w io.Writer, path string) {
	usage := "Usage: " + path + " [options] " + cmd.Args
	fmt.Fprintf(w, "%s\n\n  %s.\n", strings.TrimSpace(usage), cmd.Synopsis)
	if cmd.Help != "" {
		fmt.Fprintf(w, "\n%s\n", indentText(cmd.Help))
	}
	if cmd.Examples != "" {
		fmt.Fprintf(w, "\nExamples\n%s\n", indentText(cmd.Examples))
	}
	printFlags(w, "Options", cmd.ownFlags())
	if !cmd.Local {
		printFlags(w, "Common options", CommonFlags)
	}
}

func printFlags(w io.Writer, title string, flags []Flag) {
	if len(flags) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, f := range flags {
		fmt.Fprintf(w, "  %s\n%s\n", f.Head(), wrapText(f.About()+".", "      "))
	}
}

// HelpWidth is the width of help in characters.
const HelpWidth = 80

// wrapText breaks a text into lines of HelpWidth, each after the margin.
func wrapText(text, margin string) string {
	var lines []string
	line := margin
	for _, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(line + " " + word)
		if line != margin && width > HelpWidth {
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

func indentText(s string) string {
	lines := strings.Split(strings.Trim(s, "\n"), "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = "  " + l
		}
	}
	return strings.Join(lines, "\n")
}

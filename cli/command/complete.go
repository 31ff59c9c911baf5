package command

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/api"
)

// HelpCompletion is the help of the command completion.
const HelpCompletion = `
With the script the TAB key completes commands, options, the IDs of jobs,
allocations, evaluations, volumes and plugins, and the names of nodes and
servers. The script calls "berth complete", which reads them from the agent.
Store the script where the shell reads it at its start.`

// shells has the script of each shell for the program berth. A script passes the words before the cursor to
// "berth complete" after "--", so that none of them is an option of "berth complete".
var shells = map[string]string{
	"bash": `_berth() {
    local IFS=$'\n'
    COMPREPLY=($(berth complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _berth berth
`,
	"zsh": `#compdef berth
_berth() {
    local -a found
    found=("${(@f)$(berth complete -- "${words[@]:1:$((CURRENT-1))}" 2>/dev/null)}")
    compadd -- $found
}
compdef _berth berth
`,
	"fish": `complete -c berth -f \
    -a '(berth complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
}

// PrintCompletion returns the Run of a command that prints the script for a program, for the shell that its
// argument names.
func PrintCompletion(program string) func(context.Context, *Call) error {
	return func(_ context.Context, c *Call) error {
		script, known := shells[c.Arg(0)]
		if !known {
			return BadUsage("the shell %q is not one of bash, zsh and fish", c.Arg(0))
		}
		c.Printf("%s", strings.ReplaceAll(script, "berth", program))
		return nil
	}
}

// completeWithin bounds the wait for an agent after a user has pressed TAB.
const completeWithin = 2 * time.Second

// completer returns the command that the scripts of shells call. It prints the words that may replace the
// last one, one per line.
func completer(root *Command) Command {
	return Command{
		Name:     "complete",
		Group:    GroupSelf,
		Hidden:   true,
		Args:     "[words]...",
		Synopsis: "Print the completions of the last word",
		Run: func(ctx context.Context, c *Call) error {
			c.complete(ctx, root)
			return nil
		},
	}
}

func (c *Call) complete(ctx context.Context, at *Command) {
	before, last := c.Args, ""
	n := len(before) - 1
	if n >= 0 && before[n] != "=" {
		last = before[n]
		before = before[:n]
	}

	for len(before) > 0 && at.Run == nil {
		next := slices.IndexFunc(at.Sub, func(s Command) bool {
			return s.Name == before[0]
		})
		if next < 0 {
			return
		}

		at = &at.Sub[next]
		before = before[1:]
	}

	for _, word := range c.candidates(ctx, at, before, last) {
		if strings.HasPrefix(word, last) {
			c.Printf("%s\n", word)
		}
	}
}

// candidates returns the commands of a group, the options of a command, or the values of the next argument or
// option.
func (c *Call) candidates(ctx context.Context, at *Command, before []string, last string) (words []string) {
	if at.Run == nil {
		for _, s := range at.Sub {
			if !s.Hidden {
				words = append(words, s.Name)
			}
		}
		return words
	}

	args, option := at.cursorPosition(before)
	switch spec := strings.Fields(at.Args); {
	case option != nil && strings.Contains(option.Value, "|"):
		return strings.Split(option.Value, "|")
	case option != nil:
		return c.valuesOf(ctx, option.Name, last)
	case strings.HasPrefix(last, "-"):
		for _, f := range at.AllFlags() {
			words = append(words, "-"+f.Name)
		}
		return words

	case args < len(spec):
		return valuesOfArg(ctx, c, spec[args:], last)
	}

	return nil
}

// valuesOfArg returns the values of the first of the arguments in a usage. A word in brackets before an
// argument that is needed stands for itself.
func valuesOfArg(ctx context.Context, c *Call, spec []string, prefix string) []string {
	name := strings.Trim(spec[0], "<>[].")
	if len(spec) > 1 && strings.HasPrefix(spec[0], "[") && strings.HasPrefix(spec[1], "<") {
		return append(valuesOfArg(ctx, c, spec[1:], prefix), name)
	}
	return c.valuesOf(ctx, name, prefix)
}

// cursorPosition returns the number of arguments among words, and the option whose value follows them or nil.
// bash splits a=b and a:b into three words.
func (cmd *Command) cursorPosition(words []string) (args int, option *Flag) {
	flags := cmd.AllFlags()
	for i, word := range words {
		switch {
		case word == "=" ||
			word == ":" ||
			i > 0 && words[i-1] == ":":
		case option != nil:
			option = nil
		case !strings.HasPrefix(word, "-"):
			args++
		default:
			option = findFlag(flags, strings.TrimLeft(word, "-"))
			if option != nil && option.Kind == Bool {
				option = nil
			}
		}
	}
	return args, option
}

// valuesOf returns the values of an argument or option with a prefix. It reads them from the agent and
// returns none if the agent does not answer.
func (c *Call) valuesOf(ctx context.Context, name, prefix string) (words []string) {
	if name == "shell" {
		return slices.Sorted(maps.Keys(shells))
	}

	k, known := kinds[name]
	if !known {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	q := &api.Query{
		Prefix:     prefix,
		PerPage:    100,
		AllowStale: true,
	}

	if k.named {
		q.Prefix = "" // the prefix selects by ID, and a name may begin otherwise
	}

	found, _ := k.find(ctx, c.API, q)
	for _, f := range found {
		if f.name != "" {
			words = append(words, f.name)
		}

		words = append(words, f.id)
	}

	return words
}

package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/api"
)

const helpCompletion = `
With it the TAB key completes commands and options, and asks the agent for the
IDs of jobs, allocations, evaluations, volumes and plugins and for the names
of nodes and servers. The script calls "berth complete". Put it where the
shell reads it at its start.`

// shells holds the script of each shell. A script passes the words before the cursor to "berth complete"
// after "--", so that "berth complete" takes none of them for an option of its own.
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

func completion(_ context.Context, c *Call) error {
	script, known := shells[c.Arg(0)]
	if !known {
		return badUsage("the shell %q is not one of bash, zsh and fish", c.Arg(0))
	}
	c.Printf("%s", script)
	return nil
}

// completeWithin bounds how long a person who has pressed TAB waits for an agent.
const completeWithin = 2 * time.Second

// completer returns the command that the scripts of shells call. It prints, a line each, the words that may
// stand in the place of the last one.
func completer(root *Command) Command {
	return Command{Name: "complete", Group: GroupSelf, Hidden: true, Args: "[words]...",
		Synopsis: "Print what the last of the words may be",
		Run: func(ctx context.Context, c *Call) error {
			c.complete(ctx, root)
			return nil
		}}
}

func (c *Call) complete(ctx context.Context, at *Command) {
	words := c.Args
	if len(words) == 0 {
		words = []string{""}
	}
	before := words[:len(words)-1]
	last := words[len(words)-1]
	if last == "=" {
		before, last = words, ""
	}
	for len(before) > 0 && at.Run == nil {
		next := slices.IndexFunc(at.Sub, func(s Command) bool { return s.Name == before[0] })
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

// candidates returns the commands of a group, the options of a command, or the values of its next argument or
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
	args, option := at.place(before)
	switch spec := strings.Fields(at.Args); {
	case option != nil && strings.Contains(option.Value, "|"):
		return strings.Split(option.Value, "|")
	case option != nil:
		return c.valuesOf(ctx, option.Name, last)
	case strings.HasPrefix(last, "-"):
		for _, f := range at.flags() {
			words = append(words, "-"+f.Name)
		}
		return words
	case args < len(spec):
		return c.valuesOf(ctx, strings.Trim(spec[args], "<>[]"), last)
	}
	return nil
}

// place returns how many arguments stand among words, and the option whose value is to follow them, nil for
// none. bash makes three words of a=b and of a:b.
func (cmd *Command) place(words []string) (args int, option *Flag) {
	flags := cmd.flags()
	for i, word := range words {
		switch {
		case word == "=" || word == ":" || i > 0 && words[i-1] == ":":
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

// valuesOf returns the values of an argument or option that may begin with a prefix. It asks the agent for
// them; without an answer there are none.
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
	q := &api.Query{Prefix: prefix, PerPage: 100, AllowStale: true}
	if k.named {
		q.Prefix = "" // names begin in another way than the IDs
	}
	found, _ := k.find(ctx, c.API(), q)
	for _, f := range found {
		words = append(words, f.words...)
	}
	return words
}

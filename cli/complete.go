package cli

import (
	"context"
	"strings"
	"time"

	"berth/api"
	"berth/structs"
)

const helpCompletion = `
With it the TAB key completes commands and options, and asks the agent for the
IDs of jobs, allocations, evaluations, volumes, plugins and nodes. What it
prints calls "berth complete"; put it where the shell reads it at its start.`

// shells holds what each shell has to run. The words before the cursor go to "berth complete" behind "--", so that
// none of them is taken for an option of its own.
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
	"fish": `complete -c berth -f -a '(berth complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
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

// complete prints, a line each, what the last word may be.
func complete(ctx context.Context, c *Call) error {
	words := c.Args
	if len(words) == 0 {
		words = []string{""}
	}
	before := words[:len(words)-1]
	last := words[len(words)-1]
	at := &Command{Sub: c.root}
	for len(before) > 0 && at.Run == nil {
		next := at.sub(before[0])
		if next == nil {
			return nil
		}
		at = next
		before = before[1:]
	}
	for _, word := range c.candidates(ctx, at, before, last) {
		if strings.HasPrefix(word, last) {
			c.Printf("%s\n", word)
		}
	}
	return nil
}

func (cmd *Command) sub(name string) *Command {
	for i := range cmd.Sub {
		if cmd.Sub[i].Name == name {
			return &cmd.Sub[i]
		}
	}
	return nil
}

// candidates are the commands of a group, the options of a command, or the IDs that its next argument may be.
func (c *Call) candidates(ctx context.Context, at *Command, before []string, last string) (words []string) {
	switch {
	case at.Run == nil:
		for _, s := range at.Sub {
			if !s.Hidden {
				words = append(words, s.Name)
			}
		}
		return words
	case strings.HasPrefix(last, "-"):
		for _, f := range at.flags() {
			words = append(words, "-"+f.Name)
		}
		return words
	}
	args := 0
	for _, word := range before {
		if !strings.HasPrefix(word, "-") {
			args++
		}
	}
	spec := strings.Fields(at.Args)
	if args >= len(spec) {
		return nil
	}
	return c.idsOf(ctx, strings.Trim(spec[args], "<>[]"), last)
}

// idsOf asks the agent for the IDs of a sort that begin so. Without an answer there are none.
func (c *Call) idsOf(ctx context.Context, what, prefix string) (ids []string) {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	q := &structs.QueryOptions{Prefix: prefix, PerPage: 100, AllowStale: true}
	switch what {
	case "job":
		found, _, _ := c.API().Jobs(ctx, q)
		for _, j := range found {
			ids = append(ids, j.ID)
		}
	case "alloc":
		found, _, _ := c.API().Allocations(ctx, q)
		for _, a := range found {
			ids = append(ids, a.ID)
		}
	case "eval":
		found, _, _ := c.API().Evaluations(ctx, q)
		for _, e := range found {
			ids = append(ids, e.ID)
		}
	default:
		return c.storageIDs(ctx, what, q)
	}
	return ids
}

func (c *Call) storageIDs(ctx context.Context, what string, q *structs.QueryOptions) (ids []string) {
	switch what {
	case "volume":
		found, _, _ := c.API().Volumes(ctx, api.VolumeFilter{}, q)
		for _, v := range found {
			ids = append(ids, v.ID)
		}
	case "plugin":
		found, _, _ := c.API().Plugins(ctx, q)
		for _, p := range found {
			ids = append(ids, p.ID)
		}
	case "node":
		q.Prefix = "" // a name is as good as an ID
		found, _, _ := c.API().Nodes(ctx, q)
		for _, n := range found {
			ids = append(ids, n.Name, n.ID)
		}
	case "shell":
		return []string{"bash", "zsh", "fish"}
	}
	return ids
}

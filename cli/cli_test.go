package cli

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/structs"
)

// runLine runs a command line without quotes in this process.
func runLine(t *testing.T, line string, extra ...command.Command) (code int, out, errs string) {
	t.Helper()
	return runArgs(t, strings.Fields(line), extra...)
}

// runArgs runs the command line of some arguments in this process.
func runArgs(t *testing.T, args []string, extra ...command.Command) (code int, out, errs string) {
	t.Helper()
	return clitest.Run(t, Tree(extra...), args...)
}

func TestRun_ExitsWithTheCodeOfTheError(t *testing.T) {
	caller := &apitest.Caller{}
	addr := clitest.Serve(t, caller, clitest.NewAgent(t.TempDir()))
	for kind, want := range map[structs.Kind]int{
		structs.KindInvalid:      2,
		structs.KindDenied:       3,
		structs.KindNotFound:     4,
		structs.KindConflict:     5,
		structs.KindPrecondition: 6,
		structs.KindUnavailable:  7,
		structs.KindTimeout:      8,
		structs.KindInternal:     1,
	} {
		apitest.Fail(caller, structs.CSIVolumeGet, structs.NotFoundf("no such volume"))
		apitest.Fail(caller, structs.CSIVolumeDeregister, structs.Errorf(kind, "so it is"))
		code, _, errs := runLine(t, "volume deregister v -address "+addr)
		if code != want || !strings.HasPrefix(errs, "Error: so it is") {
			t.Errorf("%s: got exit code %d, want %d: %q", kind, code, want, errs)
		}
	}
	code, _, errs := runLine(t, "volume deregister")
	if code != 2 ||
		!strings.Contains(errs, `"berth volume deregister -h"`) {
		t.Errorf("wrong usage: got exit code %d: %q", code, errs)
	}
}

func TestRun_MergesCommandsOfOtherPackages(t *testing.T) {
	var got []string
	extra := []command.Command{
		{
			Name:     "agent",
			Group:    command.GroupSelf,
			Synopsis: "Run an agent",
			Local:    true,
			Flags:    []command.Flag{{Name: "config", Kind: command.Strings}},
			Run: func(_ context.Context, c *command.Call) error {
				got = c.Strings("config")
				return nil
			},
		},
		{
			Name: "plugin",
			Sub: []command.Command{{
				Name:     "sample",
				Synopsis: "Run a plugin",
				Run:      func(context.Context, *command.Call) error { return nil },
			}},
		},
	}
	code, _, errs := runLine(t, "agent -config a -config b", extra...)
	if code != 0 || !reflect.DeepEqual(got, []string{"a", "b"}) {
		t.Errorf("got exit code %d and the values %q: %q", code, got, errs)
	}
	_, out, _ := runLine(t, "", extra...)
	if !strings.Contains(out, "Run an agent") {
		t.Errorf("the help lacks the command:\n%s", out)
	}
	_, out, _ = runLine(t, "plugin", extra...)
	if !strings.Contains(out, "status") || !strings.Contains(out, "sample") {
		t.Errorf("the help of a group lacks a command:\n%s", out)
	}
}

// checkExamples fails the test unless a command has examples that its own parser takes.
func checkExamples(t *testing.T, path string, c command.Command) {
	t.Helper()
	if c.Run == nil {
		return
	}
	if c.Examples == "" {
		t.Errorf("%s has no example", path)
	}
	for line := range strings.SplitSeq(c.Examples, "\n") {
		_, rest, found := strings.Cut(line, "berth "+path)
		rest, _, _ = strings.Cut(rest, ">")
		rest = strings.TrimSuffix(strings.TrimSpace(rest), ")")
		call := &command.Call{Command: &c}
		err := call.Parse(splitWords(rest))
		if err == nil {
			err = command.CheckArgs(c.Args, call.Args)
		}
		if !found || err != nil {
			t.Errorf("%s: the example %q: %v", path, line, err)
		}
	}
}

// splitWords splits a line as a shell does, as far as examples go: a text in double quotes is one word.
func splitWords(line string) (all []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			all = append(all, part)
			continue
		}
		all = append(all, strings.Fields(part)...)
	}
	return all
}

// unrendered lists the commands that print the output of tasks, commands and agents unchanged.
var unrendered = []string{
	" alloc exec", " alloc logs", " monitor", " operator api", " operator metrics", " var lock", " logs",
	" exec", " job action", " action",
}

// TestTree_CommandsFollowTheRules holds every command to the rules that help and parsing need.
func TestTree_CommandsFollowTheRules(t *testing.T) {
	var walk func(path string, c command.Command)
	walk = func(path string, c command.Command) {
		path += " " + c.Name
		if c.Synopsis == "" ||
			strings.HasSuffix(c.Synopsis, ".") ||
			strings.Contains(c.Synopsis, "\n") {
			t.Errorf("%s: the synopsis is %q", path, c.Synopsis)
		}
		if (c.Run == nil) == (len(c.Sub) == 0) {
			t.Errorf("%s both runs and has commands, or neither", path)
		}
		seen := map[string]bool{}
		for _, f := range c.AllFlags() {
			if seen[f.Name] || f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s: the flag -%s is a duplicate or has the usage %q", path, f.Name, f.Usage)
			}
			if f.Kind == command.Bool && f.Value != "" {
				t.Errorf("%s: the flag -%s names a value and takes none", path, f.Name)
			}
			seen[f.Name] = true
		}
		if c.Run != nil &&
			!c.Local &&
			!c.Renders &&
			!c.Acts &&
			!slices.Contains(unrendered, path) {
			t.Errorf("%s has no -json", path)
		}
		checkExamples(t, strings.TrimSpace(path), c)
		code, out, errs := runLine(t, path+" -h")
		if code != 0 ||
			errs != "" ||
			!strings.HasPrefix(out, "Usage: berth"+path) {
			t.Errorf("%s -h: got exit code %d: %q %q", path, code, out, errs)
		}
		for line := range strings.Lines(out) {
			if len(line) > command.HelpWidth+1 {
				t.Errorf("%s -h: a line of %d characters: %s", path, len(line)-1, line)
			}
		}
		for _, s := range c.Sub {
			walk(path, s)
		}
	}
	for _, c := range Tree() {
		if c.Group == "" {
			t.Errorf("%s is in no group", c.Name)
		}
		walk("", c)
	}
}

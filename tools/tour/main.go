// Tour draws the picture of README: a terminal in which the commands of its five minutes run, with the
// outputs that they had when it was drawn. It runs an agent on this machine, as root, and removes all that it
// made, unless the agent does not start again: then it names the directory whose mounts are left. Run it at
// the top of the tree: tour -berth bin/berth -o docs/images/tour.svg
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// scene is one command of README. {alloc} and {data} in a command stand for what README calls ALLOC and
// DATA.
type scene struct {
	say     string // the sentence above the terminal
	command string // as README has it, without the comment
	until   string // a text of the output: the command runs again until it is there
	keep    string // the part of the output that is shown, as a regular expression; "" for all
}

// scenes are the tour, in its order. The agent is a scene that runs on.
var scenes = []scene{
	{
		say:     "One process is server, node and HTTP API.",
		command: "sudo ./bin/berth agent -dev",
		until:   "Data:",
		keep:    `(?m)^(berth|HTTP API|Socket|Data).*$`,
	},
	{
		say:     "The driver of the storage is a job like any other.",
		command: "./bin/berth job run examples/hostpath.hcl",
		until:   "its plugin healthy",
	},
	{
		say:     "The plugin creates a volume.",
		command: "./bin/berth volume create examples/volume.hcl",
		until:   "is ready",
	},
	{
		say:     "A service writes to the volume.",
		command: "./bin/berth job run examples/counter.hcl",
		until:   "allocation running",
	},
	{
		say:     "The volume says who may write it.",
		command: "./bin/berth volume status counter",
		until:   "granted",
		keep:    `(?m)^(ID|Plugin|State|Capacity|Access mode|On node loss) .*$|^$|^Claims\n.*\n.*$`,
	},
	{
		say:     "Kill the agent without warning.",
		command: "sudo pkill -9 -xf './bin/berth agent -dev'",
	},
	{
		say:     "Start it again on its data.",
		command: "sudo ./bin/berth agent -server -client -bind 127.0.0.1 -data-dir {data}",
		until:   "Data:",
		keep:    `(?m)^(berth|HTTP API|Socket|Data).*$`,
	},
	{
		say:     "The service has run on, and its volume was mounted all the time.",
		command: "./bin/berth alloc status {alloc}",
		until:   "Restored",
		keep:    `(?ms)^(Job|Status|Health) [^\n]*$|^$|^Volumes\n.*`,
	},
}

// shot is a scene with its output.
type shot struct {
	say, command string
	output       []string
}

func main() {
	berth := flag.String("berth", "bin/berth", "the program that runs")
	out := flag.String("o", "docs/images/tour.svg", "the picture")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	shots, err := run(ctx, *berth)
	if err == nil {
		err = os.WriteFile(*out, draw(shots), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tour:", err)
		os.Exit(1)
	}
}

// run runs the scenes and ends the agent, the jobs and the volume.
func run(ctx context.Context, berth string) (shots []shot, err error) {
	if os.Getuid() != 0 {
		return nil, errors.New("run it as root: the tour mounts file systems")
	}

	program, err := filepath.Abs(berth)
	if err != nil {
		return nil, err
	}

	t := &tour{berth: program}
	defer func() { err = errors.Join(err, t.clean()) }()
	for _, s := range scenes {
		s.command = strings.NewReplacer("{data}", t.data, "{alloc}", t.alloc).Replace(s.command)
		output, err := t.play(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.command, err)
		}
		shots = append(shots, shot{s.say, s.command, output})
	}
	return shots, nil
}

// tour is the machine of the tour.
type tour struct {
	berth string
	agent *exec.Cmd // the one that runs, nil for none
	log   *output   // of the agent
	data  string
	alloc string
}

// wait is how long a scene may take until its output is there.
const wait = time.Minute

// play runs a scene and returns what it shows.
func (t *tour) play(ctx context.Context, s scene) ([]string, error) {
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	args := strings.Fields(strings.TrimPrefix(s.command, "sudo "))

	var text string
	var err error
	switch {
	case args[0] == "pkill":
		return nil, t.kill()
	case args[1] == "agent":
		text, err = t.start(ctx, args[1:], s.until)
	default:
		text, err = t.repeat(ctx, args[1:], s.until)
	}
	if err != nil {
		return nil, err
	}

	// Later commands name them.
	if data := regexp.MustCompile(`(?m)^Data: +(\S+)$`).FindStringSubmatch(text); data != nil {
		t.data = data[1]
	}
	if alloc := regexp.MustCompile(`Allocation ([0-9a-f]{8}) `).FindStringSubmatch(text); alloc != nil {
		t.alloc = alloc[1]
	}
	if s.keep != "" {
		text = strings.Join(regexp.MustCompile(s.keep).FindAllString(text, -1), "\n")
	}
	text = regexp.MustCompile(`\n{3,}`).ReplaceAllString(text, "\n\n")
	return strings.Split(strings.Trim(text, "\n"), "\n"), nil
}

// start starts the agent and returns its output once it has a text.
func (t *tour) start(ctx context.Context, args []string, until string) (string, error) {
	t.log = &output{more: make(chan struct{}, 1)}
	t.agent = exec.Command(t.berth, args...)
	t.agent.Stdout = t.log
	t.agent.Stderr = t.log
	err := t.agent.Start()
	if err != nil {
		return "", err
	}
	return t.log.wait(ctx, until)
}

// repeat runs a command until its output has a text.
func (t *tour) repeat(ctx context.Context, args []string, until string) (string, error) {
	for {
		out, err := exec.CommandContext(ctx, t.berth, args...).CombinedOutput()
		if err == nil && strings.Contains(string(out), until) {
			return string(out), nil
		}

		select {
		case <-ctx.Done():
			return "", errors.Join(fmt.Errorf("the output has no %q: %s", until, out), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// kill kills the agent, as the command of README does.
func (t *tour) kill() error {
	err := t.agent.Process.Kill()
	_ = t.agent.Wait() // it reports the signal
	return err
}

// clean ends all that the tour has started, and fails if a mount is left.
func (t *tour) clean() error {
	if t.agent == nil {
		return nil
	}

	ctx, stop := context.WithTimeout(context.Background(), wait)
	defer stop()
	var errs []error
	for _, args := range []string{
		"job stop -purge counter", "volume delete counter", "job stop -purge hostpath",
	} {
		_, err := t.repeat(ctx, strings.Fields(args), "")
		errs = append(errs, err)
	}

	errs = append(errs, t.agent.Process.Signal(syscall.SIGTERM))
	_ = t.agent.Wait()
	table, err := os.ReadFile("/proc/self/mounts")
	switch {
	case err != nil, t.data == "":
		return errors.Join(append(errs, err)...)
	case bytes.Contains(table, []byte(t.data)):
		return errors.Join(append(errs, fmt.Errorf("mounts are left below %s", t.data))...)
	}
	return errors.Join(append(errs, os.RemoveAll(t.data))...)
}

// Package doctor has the command that checks whether a machine suits an agent: berth doctor.
package doctor

import (
	"context"
	"time"

	"berth/api"
	"berth/cli/command"
	"berth/internal/doctor"
	"berth/internal/opsocket"
	"berth/structs"
)

const help = `
Checks the kernel, cgroups, mounts, modules, programs, ports, clock, disk,
certificates and fence agents of this machine for the agent that the
configuration describes. It changes nothing and needs no agent. If one runs,
it tells the health of its drivers and plugins over its operator socket, so
run this as root. Below each fault is the next step, which may name a page of
the documentation. Packages have it in /usr/share/doc/berth/docs.

A check has one of four results. With "fail" the agent does not run, or loses
something. With "warn" the agent lacks a feature. With "skip" the check did
not apply, or could not look.

The exit code is 1 if a check fails, and 0 if none does. With -strict it is
also 1 after a warning. Wrong usage has the code 2.`

// patience bounds the questions to the agent: a machine that is to be examined may have one that hangs.
const patience = 10 * time.Second

// Load returns a machine with the settings of the configuration in some files and directories, and the path
// of its operator socket. Without a path it takes the usual directory.
type Load func(paths []string) (m *doctor.Machine, socket string)

// Command returns "berth doctor".
func Command(load Load) command.Command {
	return command.Command{
		Name:     "doctor",
		Group:    command.GroupSelf,
		Synopsis: "Check whether this machine suits an agent",
		Help:     help,
		Local:    true,
		Renders:  true,
		Flags: []command.Flag{
			{
				Name:  "config",
				Kind:  command.Strings,
				Value: "path",
				Usage: "A configuration file, or a directory of them; may be given more than once. Default: " +
					opsocket.ConfigDir,
			},
			{Name: "strict", Usage: "Exit with 1 also after a warning"},
		},
		Run: func(ctx context.Context, c *command.Call) error {
			return run(ctx, c, load)
		},
		Examples: "berth doctor\n" +
			"berth doctor -strict -json\n" +
			"berth doctor -config agent.hcl",
	}
}

// report is the answer of the command.
type report struct {
	Checks   []doctor.Finding
	Failures int
	Warnings int
}

func run(ctx context.Context, c *command.Call, load Load) error {
	m, socket := load(c.Strings("config"))
	if opsocket.Serves(socket) {
		asked, cancel := context.WithTimeout(ctx, patience)
		m.Agent = ask(asked, socket)
		cancel()
	}

	r := report{Checks: m.Run(ctx)}
	for _, f := range r.Checks {
		switch f.Result {
		case doctor.Fail:
			r.Failures++
		case doctor.Warn:
			r.Warnings++
		}
	}

	err := c.Show(r, func() error {
		printReport(c, r)
		return nil
	})
	if err == nil && (r.Failures > 0 || c.Bool("strict") && r.Warnings > 0) {
		err = command.ExitError(1)
	}
	return err
}

// ask returns the answer of the agent that serves an operator socket.
func ask(ctx context.Context, socket string) *doctor.Agent {
	client := api.NewClient(api.ClientConfig{Address: "unix://" + socket})
	defer client.Close()

	var a doctor.Agent
	_, a.Unhealthy = client.AgentHealth(ctx)
	self, err := client.AgentSelf(ctx)
	if err != nil {
		a.NodeFault = err
		return &a
	}

	if self.Member != nil {
		a.Server = true
		a.Machine = structs.MachineID(self.Member.Tags["machine"])
	}

	addServers(ctx, client, &a)

	pins, _, err := client.NodeFencePins(ctx, nil)
	if err == nil {
		a.FenceWarnings = pins.Warnings
	}

	id := self.Stats["client"]["node_id"]
	if id != "" {
		a.Node, _, a.NodeFault = client.Node(ctx, id, nil)
	}
	return &a
}

// addServers adds the answer of the leader about all servers. Without a leader, or the right to ask it, there
// is none.
func addServers(ctx context.Context, client *api.Client, a *doctor.Agent) {
	health, _, err := client.AutopilotHealth(ctx, nil)
	if err != nil {
		a.ServersFault = err
		return
	}
	a.Differences = health.Differences
	for _, s := range health.Servers {
		// The leader asks those alone that are alive in the gossip.
		if s.LastContact < 0 || s.SerfStatus != "alive" {
			a.Silent = append(a.Silent, s.Name)
		}
	}
}

// colors has the colours of the results.
var colors = map[doctor.Result]string{
	doctor.OK:   command.Green,
	doctor.Warn: command.Yellow,
	doctor.Fail: command.Red,
}

// printReport writes a line for each finding, and the remedy below it.
func printReport(c *command.Call, r report) {
	for _, f := range r.Checks {
		begin := ""
		end := ""
		if c.Colour() && colors[f.Result] != "" {
			begin = colors[f.Result]
			end = command.Plain
		}
		// The colours are not printable text, so they are written apart from it.
		_, _ = c.Out.Write([]byte(begin))
		c.Printf("%-4s", f.Result)
		_, _ = c.Out.Write([]byte(end))
		c.Printf("  %-13s  %s\n", f.Check, command.OneLine(f.Text))
		if f.Remedy != "" {
			c.Printf("                       -> %s\n", command.OneLine(f.Remedy))
		}
	}
	c.Printf("\n%s, %s\n", command.Plural(r.Failures, "failure"), command.Plural(r.Warnings, "warning"))
}

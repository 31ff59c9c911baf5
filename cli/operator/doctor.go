package operator

import (
	"context"
	"time"

	"berth/api"
	"berth/api/nodes"
	"berth/api/operator"
	"berth/api/show"
	"berth/cli/command"
	"berth/internal/doctor"
	"berth/internal/opsocket"
	"berth/structs"
)

const doctorHelp = `
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

// doctorPatience bounds the questions to the agent: a machine that is to be examined may have one that hangs.
const doctorPatience = 10 * time.Second

// LoadMachine returns a machine with the settings of the configuration in some files and directories, and the
// path of its operator socket. Without a path it takes the usual directory.
type LoadMachine func(paths []string) (m *doctor.Machine, socket string)

// DoctorCommand returns "berth doctor".
func DoctorCommand(load LoadMachine) command.Command {
	return command.Command{
		Name:     "doctor",
		Group:    command.GroupSelf,
		Synopsis: "Check whether this machine suits an agent",
		Help:     doctorHelp,
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
			return runDoctor(ctx, c, load)
		},
		Examples: "berth doctor\n" +
			"berth doctor -strict -json\n" +
			"berth doctor -config agent.hcl",
	}
}

// doctorReport is the answer of the command.
type doctorReport struct {
	Checks   []doctor.Finding
	Failures int
	Warnings int
}

func runDoctor(ctx context.Context, c *command.Call, load LoadMachine) error {
	m, socket := load(c.Strings("config"))
	if opsocket.Serves(socket) {
		asked, cancel := context.WithTimeout(ctx, doctorPatience)
		m.Agent = askAgent(asked, socket)
		cancel()
	}

	r := doctorReport{Checks: m.Run(ctx)}
	for _, f := range r.Checks {
		switch f.Result {
		case doctor.Fail:
			r.Failures++
		case doctor.Warn:
			r.Warnings++
		}
	}

	err := c.Show(r, func() error {
		printDoctorReport(c, r)
		return nil
	})
	if err == nil && (r.Failures > 0 || c.Bool("strict") && r.Warnings > 0) {
		err = command.ExitError(1)
	}
	return err
}

// askAgent returns the answer of the agent that serves an operator socket.
func askAgent(ctx context.Context, socket string) *doctor.Agent {
	client := api.NewClient(api.ClientConfig{Address: "unix://" + socket})
	defer client.Close()

	var a doctor.Agent
	_, a.Unhealthy = operator.ReadHealth(ctx, client)
	self, err := operator.ReadAgent(ctx, client)
	if err != nil {
		a.NodeFault = err
		return &a
	}

	if self.Member != nil {
		a.Server = true
		a.Machine = structs.MachineID(self.Member.Tags["machine"])
	}

	addServerHealth(ctx, client, &a)

	pins, _, err := nodes.ListFencePins(ctx, client, nil)
	if err == nil {
		a.FenceWarnings = pins.Warnings
	}

	id := self.Stats["client"]["node_id"]
	if id != "" {
		a.Node, _, a.NodeFault = nodes.Get(ctx, client, id, nil)
	}
	return &a
}

// addServerHealth adds the answer of the leader about all servers. Without a leader, or the right to ask it,
// there is none.
func addServerHealth(ctx context.Context, client *api.Client, a *doctor.Agent) {
	health, _, err := operator.AutopilotHealth(ctx, client, nil)
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

// findingColors has the colours of the results.
var findingColors = map[doctor.Result]string{
	doctor.OK:   command.Green,
	doctor.Warn: command.Yellow,
	doctor.Fail: command.Red,
}

// printDoctorReport writes a line for each finding, and the remedy below it.
func printDoctorReport(c *command.Call, r doctorReport) {
	for _, f := range r.Checks {
		begin := ""
		end := ""
		if c.Colour() && findingColors[f.Result] != "" {
			begin = findingColors[f.Result]
			end = command.Plain
		}
		// The colours are not printable text, so they are written apart from it.
		_, _ = c.Out.Write([]byte(begin))
		c.Printf("%-4s", f.Result)
		_, _ = c.Out.Write([]byte(end))
		c.Printf("  %-13s  %s\n", f.Check, show.OneLine(f.Text))
		if f.Remedy != "" {
			c.Printf("                       -> %s\n", show.OneLine(f.Remedy))
		}
	}
	c.Printf("\n%s, %s\n", show.Plural(r.Failures, "failure"), show.Plural(r.Warnings, "warning"))
}

package operator

import (
	"berth/api/operator"
	"context"
	"net"
	"strconv"

	"berth/api/show"
	"berth/cli/command"
)

// AgentInfoCommand is berth agent-info.
var AgentInfoCommand = command.Command{
	Name:     "agent-info",
	Group:    command.GroupSelf,
	Synopsis: "Show the agent that answers, with the figures of its parts",
	Renders:  true,
	Run:      agentInfo,
	Examples: "berth agent-info\n" +
		"berth agent-info -address http://10.0.0.1:4746 -json",
}

// agentInfo shows an agent as it describes itself.
func agentInfo(ctx context.Context, c *command.Call) error {
	self, err := operator.ReadAgent(ctx, c.API)
	if err != nil {
		return err
	}

	return c.Show(self, func() error {
		m := self.Member
		if m != nil {
			c.Pairs(
				"Name", m.Name,
				"Address", net.JoinHostPort(m.Addr, strconv.Itoa(int(m.Port))),
				"Status", m.Status,
			)
		}
		for part, figures := range show.Sorted(self.Stats) {
			var rows command.Grid
			for name, value := range show.Sorted(figures) {
				rows.AddRow(name, value)
			}
			c.Section(part, "Name|Value", rows)
		}
		return nil
	})
}

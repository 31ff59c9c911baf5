package operator

import (
	"berth/api/operator"
	"context"
	"time"

	"berth/api/show"
	"berth/cli/command"
	"berth/state/clustertime"
	"berth/structs/cluster"
)

// operatorClock has the verbs of berth operator clock.
var operatorClock = command.Command{
	Name:     "clock",
	Synopsis: "Show the clocks of the servers, and accept them",
	Sub: []command.Command{
		{
			Name:     "status",
			Synopsis: "Show the cluster time and the clocks of the servers",
			Help: `
Ages count in the cluster time. It follows the clocks of the servers, unless
they were set, or all servers were off: then most servers have to agree for
the quarantine, or an operator accepts the clock.`,
			Renders:  true,
			Run:      clockStatus,
			Examples: "berth operator clock status",
		},
		{
			Name:     "accept",
			Synopsis: "Make the cluster time that of the clocks at once",
			Help: `
For clocks that are right, while the cluster time is not: all servers were
off, or the cluster time has followed clocks that were wrong. Most servers
have to have the clock of the leader.

After a step forward, older things are due at once by their ages: deletions
of marked volumes, of snapshots that are no longer kept, and of ended rows.
After a step back, what was written before is kept for longer.`,
			Acts:     true,
			Run:      clockAccept,
			Examples: "berth operator clock accept",
		},
	},
}

func clockStatus(ctx context.Context, c *command.Call) error {
	clocks, _, err := operator.ListClocks(ctx, c.API, nil)
	if err != nil {
		return err
	}
	return c.Show(clocks, func() error {
		c.Pairs(
			"Cluster time", timeText(clocks.Now),
			"Clock of the leader", timeText(clocks.Wall),
			"Difference", differenceText(time.Duration(clocks.Wall-clocks.Now)),
			"Followed", followText(clocks),
		)
		c.Section("Servers", "Server|ID|Address|Leader|Clock", clockRows(clocks.Servers))
		return nil
	})
}

func timeText(at int64) string { return time.Unix(0, at).UTC().Format(time.RFC3339) }

// differenceText shows by how much a clock is ahead of another one.
func differenceText(ahead time.Duration) string {
	switch ahead = ahead.Round(time.Second); {
	case ahead < 0:
		return (-ahead).String() + " behind"
	case ahead > 0:
		return ahead.String() + " ahead"
	}
	return "none"
}

// followText tells whether the cluster time follows the clock of the leader.
func followText(clocks *cluster.ClockResponse) string {
	row := clocks.ClusterTime
	switch {
	case row == nil:
		return "no: a server is too old for the cluster time"
	case row.Since == 0 && row.Ahead < -clustertime.Tolerance:
		return "no: the clock of the leader is behind; it runs slower while most servers agree"
	case row.Since == 0:
		return "yes"
	case row.Agreed == 0:
		return "no: the clock of the leader is ahead, and most servers do not have it"
	}
	left := clocks.Quarantine - time.Duration(row.Time-row.Agreed)
	return "in " + max(left, 0).Round(time.Second).String() + ", or by \"berth operator clock accept\""
}

func clockRows(clocks []*cluster.ServerClock) (rows command.Grid) {
	for _, s := range clocks {
		text := differenceText(s.Ahead)
		switch {
		case s.Fault != "":
			text = "not known: " + s.Fault
		case s.Right(clustertime.Tolerance):
			text = "like the leader's"
		}
		rows.AddRow(s.Name, s.ID, s.Address, show.YesNo(s.Leader), text)
	}
	return rows
}

func clockAccept(ctx context.Context, c *command.Call) error {
	err := operator.AcceptClock(ctx, c.API)
	if err != nil {
		return err
	}
	return c.Report(command.Changed{"Accepted": "true"}, "The cluster time is that of the clocks")
}

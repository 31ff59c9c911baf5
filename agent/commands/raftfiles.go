package commands

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"berth/api/show"
	"berth/cli/command"
	"berth/fsm"
	"berth/server/raftfiles"
)

// The entries that raft logs shows.
const (
	shownEntries     = 100
	mostShownEntries = 10_000
)

// raftInfoCommand returns "berth operator raft info".
func raftInfoCommand() command.Command {
	return command.Command{
		Name:     "info",
		Args:     "<dir>",
		Synopsis: "Show what the files of a stopped server have",
		Help: `
The directory is the data_dir of an agent with a server. The command shows the
ends of the log, the snapshots, and the servers of the newest configuration.
It checks the files as a start of the server does, and changes none of them.
Stop the server before. The command calls no agent.`,
		Local:   true,
		Renders: true,
		Run:     raftInfo,
		Examples: "berth operator raft info /var/lib/berth\n" +
			"berth operator raft info -json /var/lib/berth/server",
	}
}

func raftInfo(_ context.Context, c *command.Call) error {
	info, err := raftfiles.Inspect(c.Arg(0), nil)
	if err != nil {
		return err
	}

	return c.Show(info, func() error {
		log := info.Log
		c.Pairs(
			"Directory", info.DataDir,
			"Server", info.ServerID,
			"Level of the files", strconv.Itoa(info.Level),
			"Term", strconv.FormatUint(info.Term, 10),
			"First entry", entryText(log.First, log.FirstTerm),
			"Last entry", entryText(log.Last, log.LastTerm),
			"Size of the entries", fmt.Sprintf("%d bytes in %d segments", log.Bytes, log.Segments),
			"Configuration", "of the index "+strconv.FormatUint(info.ConfigIndex, 10),
		)
		var servers, snapshots command.Grid
		for _, s := range info.Servers {
			servers.AddRow(s.ID, s.Address, s.Suffrage)
		}
		for _, s := range info.Snapshots {
			snapshots.AddRow(s.ID, fmt.Sprint(s.Index), fmt.Sprint(s.Term), fmt.Sprint(s.Bytes))
		}
		c.Section("Servers", "ID|Address|Suffrage", servers)
		c.Section("Snapshots", "ID|Index|Term|Bytes", snapshots)
		return nil
	})
}

// entryText formats the place of an entry.
func entryText(index, term uint64) string {
	if index == 0 {
		return "none"
	}
	return fmt.Sprintf("index %d, term %d", index, term)
}

// raftLogsCommand returns "berth operator raft logs".
func raftLogsCommand() command.Command {
	return command.Command{
		Name:     "logs",
		Args:     "<dir>",
		Synopsis: "List the last entries in the log of a stopped server",
		Help: `
Shows the names of the commands and their sizes. What they write may have
secrets, and is not shown: see "berth operator snapshot state". The directory
is as for "berth operator raft info".`,
		Local:   true,
		Renders: true,
		Flags: []command.Flag{{
			Name:    "last",
			Kind:    command.Number,
			Value:   "number",
			Default: strconv.Itoa(shownEntries),
			Usage:   "How many entries; at most " + strconv.Itoa(mostShownEntries),
		}},
		Run: raftLogs,
		Examples: "berth operator raft logs /var/lib/berth\n" +
			"berth operator raft logs -last 1000 -json /var/lib/berth",
	}
}

// entryStub is a log entry without the payloads of its commands.
type entryStub struct {
	Index      uint64
	Term       uint64
	Type       string
	Commands   []fsm.Part `json:",omitempty"`
	Bytes      int
	AppendedAt time.Time
}

func raftLogs(_ context.Context, c *command.Call) error {
	most := int(c.Number("last"))
	if most < 1 || most > mostShownEntries {
		return command.BadUsage("-last is %d; expected 1 to %d", most, mostShownEntries)
	}

	entries := []entryStub{}
	_, err := raftfiles.Inspect(c.Arg(0), func(e *raft.Log) error {
		if len(entries) == 2*most { // of a long log only the end stays in memory
			entries = append(entries[:0], entries[most:]...)
		}
		entries = append(entries, stubOf(e))
		return nil
	})
	if err != nil {
		return err
	}

	entries = entries[max(0, len(entries)-most):]
	return c.Show(entries, func() error {
		var rows command.Grid
		for _, e := range entries {
			rows.AddRow(fmt.Sprint(e.Index), fmt.Sprint(e.Term), e.Type, partsText(e.Commands),
				fmt.Sprint(e.Bytes), show.Time(e.AppendedAt))
		}
		c.Table("Index|Term|Type|Commands|Bytes|Appended", rows)
		return nil
	})
}

func stubOf(e *raft.Log) entryStub {
	stub := entryStub{
		Index:      e.Index,
		Term:       e.Term,
		Type:       strings.ToLower(strings.TrimPrefix(e.Type.String(), "Log")),
		Bytes:      len(e.Data),
		AppendedAt: e.AppendedAt,
	}
	if e.Type == raft.LogCommand {
		stub.Commands = fsm.Parts(e.Data)
	}
	return stub
}

// partsText names the commands of an entry, each with its number if it is there several times.
func partsText(parts []fsm.Part) string {
	counts := map[string]int{}
	var names []string
	for _, p := range parts {
		if counts[p.Name] == 0 {
			names = append(names, p.Name)
		}
		counts[p.Name]++
	}
	for i, name := range names {
		if counts[name] > 1 {
			names[i] = fmt.Sprintf("%s (%d)", name, counts[name])
		}
	}
	return strings.Join(names, ", ")
}

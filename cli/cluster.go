package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"berth/api"
	"berth/internal/snaparchive"
	"berth/internal/version"
	"berth/structs"
)

// serverCommands are the verbs of berth server.
var serverCommands = []Command{
	{
		Name:     "members",
		Synopsis: "List the servers",
		Renders:  true,
		Run:      serverMembers,
		Examples: "berth server members",
	},
	{
		Name:     "leave",
		Synopsis: "Remove the agent's server from the cluster and stop the agent",
		Help:     helpServerLeave,
		Acts:     true,
		Flags: []Flag{{
			Name:  "force",
			Usage: "Leave even if the cluster loses its majority and becomes unavailable",
		}},
		Run: serverLeave,
		Examples: "berth server leave\n" +
			"berth server leave -address http://10.0.0.3:4746",
	},
	{
		Name:     "force-leave",
		Args:     "<server>",
		Synopsis: "Mark a failed server as one that has left",
		Help:     helpForceLeave,
		Acts:     true,
		Flags:    []Flag{{Name: "prune", Usage: "Remove the server from the list of members at once"}},
		Run:      serverForceLeave,
		Examples: "berth server force-leave s3\n" +
			"berth server force-leave -prune s3.global",
	},
}

// operatorCommands are the verbs of berth operator.
var operatorCommands = []Command{
	{
		Name:     "raft",
		Synopsis: "Show the Raft configuration and remove failed servers",
		Sub: []Command{
			{
				Name:     "list-peers",
				Synopsis: "List the members of the Raft configuration",
				Renders:  true,
				Flags: []Flag{
					{Name: "stale", Usage: "Show the view of the agent's server, also without a leader"},
				},
				Run: raftListPeers,
				Examples: "berth operator raft list-peers\n" +
					"berth operator raft list-peers -stale",
			},
			{
				Name:     "remove-peer",
				Synopsis: "Remove a failed server from the Raft configuration",
				Help:     helpRemovePeer,
				Acts:     true,
				Flags: []Flag{
					{Name: "peer-id", Kind: String, Value: "id", Usage: "The ID of the server"},
					{
						Name:  "peer-address",
						Kind:  String,
						Value: "host:port",
						Usage: "The RPC address of the server, in place of its ID",
					},
				},
				Run: raftRemovePeer,
				Examples: "berth operator raft remove-peer -peer-id 541ba1cf-e48d-59c5-0ec1-ce31ec81cc1a\n" +
					"berth operator raft remove-peer -peer-address 10.0.0.3:4747",
			},
		},
	},
	{
		Name:     "check",
		Args:     "<file>",
		Synopsis: "Check the invariants of a saved state",
		Help:     helpOperatorCheck,
		Local:    true,
		Renders:  true,
		Run:      operatorCheck,
		Examples: "berth operator check backup.snap",
	},
	{
		Name:     "metrics",
		Synopsis: "Show the metrics of one agent",
		Flags: []Flag{
			{
				Name:    "format",
				Kind:    String,
				Value:   "json|prometheus",
				Default: api.MetricsJSON,
				Usage:   "How the agent renders them",
			},
			{Name: "json", Usage: "The same as -format json"},
		},
		Run: operatorMetrics,
		Examples: "berth operator metrics\n" +
			"berth operator metrics -format prometheus",
	},
	{
		Name:     "snapshot",
		Synopsis: "Save and restore the whole state",
		Sub: []Command{
			{
				Name:     "save",
				Args:     "<file>",
				Synopsis: "Save the whole state to a file",
				Acts:     true,
				Run:      snapshotSave,
				Examples: "berth operator snapshot save backup.snap",
			},
			{
				Name:     "restore",
				Args:     "<file>",
				Synopsis: "Replace the whole state by a saved one",
				Acts:     true,
				Run:      snapshotRestore,
				Examples: "berth operator snapshot restore backup.snap",
			},
			{
				Name:     "inspect",
				Args:     "<file>",
				Synopsis: "Verify and describe a saved state",
				Local:    true,
				Renders:  true,
				Run:      snapshotInspect,
				Examples: "berth operator snapshot inspect backup.snap",
			},
		},
	},
}

// systemCommands are the verbs of berth system.
var systemCommands = []Command{
	{
		Name:     "gc",
		Synopsis: "Delete rows that are past their retention",
		Acts:     true,
		Run:      systemGC,
		Examples: "berth system gc",
	},
}

func serverMembers(ctx context.Context, c *Call) error {
	members, err := c.API.AgentMembers(ctx)
	if err != nil {
		return err
	}
	leader, err := c.API.StatusLeader(ctx)
	if err != nil && !structs.IsKind(err, structs.KindUnavailable) {
		return err
	}
	return c.show(members, func() error {
		var rows grid
		for _, m := range members.Members {
			rpc := net.JoinHostPort(m.Addr, m.Tags["port"])
			rows.add(
				m.Name,
				m.Addr,
				fmt.Sprint(m.Port),
				m.Status,
				yesNo(leader != "" && rpc == leader),
				m.Tags["build"],
				m.Tags["dc"],
				m.Tags["region"],
			)
		}
		c.table("Name|Address|Port|Status|Leader|Version|Datacenter|Region", rows)
		if leader == "" {
			c.Printf("\nThere is no leader now\n")
		}
		return nil
	})
}

func raftListPeers(ctx context.Context, c *Call) error {
	servers, err := c.API.RaftConfiguration(ctx, &structs.QueryOptions{AllowStale: c.Bool("stale")})
	if err != nil {
		return err
	}
	return c.show(servers, func() error {
		var rows grid
		for _, s := range servers {
			state := "follower"
			if s.Leader {
				state = "leader"
			}
			rows.add(
				cmp.Or(s.Node, "(unknown)"),
				s.ID,
				s.Address,
				state,
				yesNo(s.Voter),
				s.RaftProtocol,
				cmp.Or(s.Status, "unknown"),
			)
		}
		c.table("Server|ID|Address|State|Voter|Protocol|Gossip", rows)
		return nil
	})
}

// operatorMetrics prints the answer unchanged, because its readers are programs.
func operatorMetrics(ctx context.Context, c *Call) error {
	format := c.String("format")
	if c.Bool("json") {
		format = api.MetricsJSON
	}
	text, err := c.API.Metrics(ctx, format)
	if err != nil {
		return err
	}
	c.Printf("%s\n", bytes.TrimRight(text, "\n"))
	return nil
}

// snapshotSave writes a temporary file and renames it, so that an existing file is complete.
func snapshotSave(ctx context.Context, c *Call) (err error) {
	name := c.Arg(0)
	tmp, err := os.CreateTemp(filepath.Dir(name), ".berth-snapshot-*")
	if err != nil {
		return structs.Invalidf("%w", err)
	}
	defer func() {
		_ = tmp.Close()
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	if err := c.API.SnapshotSave(ctx, tmp); err != nil {
		return err
	}
	if _, err := tmp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	meta, err := snaparchive.Read(tmp, io.Discard)
	if err != nil {
		return fmt.Errorf("verifying the archive: %w", err)
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), name); err != nil {
		return err
	}
	return c.report(meta, "Saved the state as of index %d to %s", meta.Index, name)
}

// openArchive opens an archive after it has verified all of it. It writes the state in it to state.
func openArchive(name string, state io.Writer) (*os.File, *snaparchive.Meta, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, structs.Invalidf("%w", err)
	}
	meta, err := snaparchive.Read(f, state)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, meta, nil
}

func snapshotRestore(ctx context.Context, c *Call) error {
	f, meta, err := openArchive(c.Arg(0), io.Discard)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := c.API.SnapshotRestore(ctx, f); err != nil {
		return err
	}
	return c.report(meta, "Restored the state as of index %d", meta.Index)
}

// snapshotFile is the answer of inspect.
type snapshotFile struct {
	*snaparchive.Meta
	Size      int64 // of the archive
	StateSize int64
}

func snapshotInspect(_ context.Context, c *Call) error {
	state := &counter{}
	f, meta, err := openArchive(c.Arg(0), state)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	file := snapshotFile{Meta: meta, Size: info.Size(), StateSize: state.n}
	return c.show(file, func() error {
		c.pairs(
			"Index", fmt.Sprint(meta.Index),
			"Term", fmt.Sprint(meta.Term),
			"Region", meta.Region,
			"Written by", meta.Version,
			"Created", formatTime(meta.Created),
			"Size", size(file.Size),
			"Size of the state", size(file.StateSize),
		)
		c.Printf("The archive is complete\n")
		return nil
	})
}

// counter counts the bytes that are written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

func systemGC(ctx context.Context, c *Call) error {
	if err := c.API.SystemGC(ctx); err != nil {
		return err
	}
	return c.report(changed{}, "Collected")
}

func showVersion(_ context.Context, c *Call) error {
	c.Printf("berth %s\n", version.Version)
	if r := version.Revision(); r != "" {
		c.Printf("Revision %s\n", r)
	}
	return nil
}

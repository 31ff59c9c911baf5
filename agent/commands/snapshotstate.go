package commands

import (
	"context"

	"berth/cli/command"
	"berth/cli/operator"
	"berth/internal/fastjson"
	"berth/server/events"
)

// snapshotStateCommand returns "berth operator snapshot state".
func snapshotStateCommand() command.Command {
	return command.Command{
		Name:     "state",
		Args:     "<file>",
		Synopsis: "Show the rows of a saved state",
		Help: `
Each line is a JSON object with one row, as the payloads of events have it:
{"Job": ...}, {"Node": ...}, {"Volume": ...} and so on. Rows have no secrets.
Variables, certificates and settings are left out. The command calls no agent,
and needs as much memory as a server.`,
		Local: true,
		Flags: []command.Flag{operator.IdentityFlag},
		Run:   snapshotState,
		Examples: "berth operator snapshot state backup.snap | jq .Volume.ID\n" +
			"berth operator snapshot state -identity key.txt backup.snap.age",
	}
}

func snapshotState(ctx context.Context, c *command.Call) error {
	store, err := operator.LoadArchive(ctx, c)
	if err != nil {
		return err
	}

	var e fastjson.Encoder
	var line []byte
	for m := range events.MakeAll(store.Read()) {
		line, err = m.AppendPayload(line[:0], &e)
		if err != nil {
			return err
		}
		_, err = c.Out.Write(append(line, '\n'))
		if err != nil {
			return err
		}
	}
	return nil
}

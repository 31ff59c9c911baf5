package commands

import (
	"context"
	"os"
	"time"

	"berth/agent"
	"berth/cli/certificate"
	"berth/cli/command"
	"berth/internal/agentlog"
	"berth/internal/backoff"
	"berth/structs"
)

// A machine joins before its agent starts, in the same command, so that a unit of systemd or a job of
// cloud-init can start it with a token and stays the same afterwards.

// tokenVariable has the join token. It is in the environment, because everybody on the machine sees
// arguments.
const tokenVariable = "BERTH_JOIN_TOKEN"

// joinMode is the option with the mode of TLS of a machine that joins.
const joinMode = "join-mode"

// joinPause is the longest time between two attempts to reach the server.
const joinPause = 10 * time.Second

const helpJoin = `

-join makes a new machine a server or a node of a cluster, with the join token
in ` + tokenVariable + `. It writes the files of "berth tls join" into the
directory of -config, and waits while the server cannot be reached. If the
directory has these files, -join does nothing: the command can stay as it is.`

// agentCommand is berth agent, which can first join a cluster.
func agentCommand() command.Command {
	c := agent.Command()
	c.Help += helpJoin
	c.Examples += "\n" + tokenVariable + "=\"$TOKEN\" berth agent -config /etc/berth -join 10.0.0.1:4747"
	c.Flags = append(c.Flags, command.Flag{
		Name:  "join",
		Kind:  command.String,
		Value: "server",
		Usage: "First get the certificate of a new machine from a server: host:port of its RPC",
	}, joinModeFlag(), serverOnlyFlag)

	// The agent reads the files that joinFirst has written, so its configuration is loaded after that.
	run := c.Run
	c.Run = func(ctx context.Context, call *command.Call) error {
		agentlog.OutliveReaders()
		err := joinFirst(ctx, call)
		if err == nil {
			err = checkServerOnly(call)
		}
		if err != nil {
			return agent.InvalidConfig(err)
		}

		return run(ctx, call)
	}

	return c
}

// joinModeFlag is the option of berth tls join, with a name that says to which part of the agent it belongs.
func joinModeFlag() command.Flag {
	f := certificate.ModeFlag
	f.Name = joinMode
	f.Usage = "With -join: " + f.Usage
	return f
}

// joinFirst makes the files of a new machine. It does nothing without -join, and where the files are.
func joinFirst(ctx context.Context, call *command.Call) error {
	server := call.String("join")

	// The variable is removed also without -join: the agent passes its environment on to children.
	token := os.Getenv(tokenVariable)
	_ = os.Unsetenv(tokenVariable) // no child needs it; a valid name is no error
	if server == "" {
		return nil
	}

	configs := call.Strings("config")
	if len(configs) == 0 {
		return command.BadUsage("-join needs -config with the directory for the files of this machine")
	}

	// Further paths may have files that are the same for all machines.
	dir := configs[0]

	// A token may be used up or have ended by the next start, which needs it no more.
	if certificate.Joined(dir) {
		return nil
	}

	mode, err := certificate.ParseMode("-"+joinMode, call.String(joinMode))
	if err != nil {
		return err
	}

	if token == "" {
		return command.BadUsage("-join needs a join token in %s: make one with `berth node join-token "+
			"create` or `berth server join-token create` on a server", tokenVariable)
	}

	return joinWhenReached(ctx, call, certificate.Joining{
		Dir:    dir,
		Mode:   mode,
		Server: server,
		Token:  token,
		Name:   call.String("name"),
	})
}

// joinWhenReached joins, and waits while no server can be reached.
func joinWhenReached(ctx context.Context, call *command.Call, j certificate.Joining) error {
	// The machines of a new cluster start in any order, so a server may come later.
	pause := backoff.Backoff{Min: time.Second, Max: joinPause}
	for {
		m, err := certificate.Join(ctx, j)
		if err == nil {
			call.Printf("%s\n", m)
			return nil
		}

		// Only a server that is not reached yet may answer otherwise later. A denied token stays denied.
		if structs.KindOf(err) != structs.KindUnavailable {
			return err
		}

		call.Printf("Waiting for a server: %v\n", err)
		if !pause.Wait(ctx) {
			return err
		}
	}
}

package operator

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"berth/api/operator"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
	"berth/structs/cluster"
)

// operatorGossip has the verbs of berth operator gossip.
var operatorGossip = command.Command{
	Name:     "gossip",
	Synopsis: "Change the keys that encrypt the gossip of the servers",
	Sub: []command.Command{{
		Name:     "keyring",
		Synopsis: "Show and change the keys that encrypt the gossip of the servers",
		Sub: []command.Command{
			{
				Name:     "generate",
				Synopsis: "Print a new key",
				Help: `
The key is random, and is for server.encrypt or for "install". Nothing stores
it.`,
				Local: true,
				Run: func(_ context.Context, c *command.Call) error {
					c.Printf("%s\n", cluster.NewGossipKey())
					return nil
				},
				Examples: "berth operator gossip keyring generate",
			},
			{
				Name:     "list",
				Synopsis: "List the keys, and how many servers have each",
				Help: `
The keys are secret. The agent has to run a server, and the address has to be
its operator socket.`,
				Renders:  true,
				Run:      gossipList,
				Examples: "berth operator gossip keyring list -address unix:///run/berth.sock",
			},
			gossipChange(cluster.GossipKeyInstall, "Give all servers a key", `
The servers decrypt with it, and encrypt with it after "use".`),
			gossipChange(cluster.GossipKeyUse, "Have all servers encrypt with an installed key", `
The key becomes the primary one. The former one stays until it is removed.`),
			gossipChange(cluster.GossipKeyRemove, "Remove a key from all servers", `
A server that has no other key cannot join any more. The primary key is
rejected: use another one first.`),
		},
	}},
}

// gossipChange returns the verb of an operation that changes the keys.
func gossipChange(op cluster.GossipKeyOperation, synopsis, help string) command.Command {
	verb := "berth operator gossip keyring " + string(op)
	return command.Command{
		Name:     string(op),
		Args:     "<key>",
		Synopsis: synopsis,
		Help: help + `
Every server has to be alive. The key - is read from the standard input, so
that no list of processes shows it. The agent has to run a server, and the
address has to be its operator socket.`,
		Acts: true,
		Run: func(ctx context.Context, c *command.Call) error {
			return changeGossip(ctx, c, op)
		},
		Examples: verb + " -address unix:///run/berth.sock -",
	}
}

// gossipList shows how many servers have each key, and the warnings of the servers below.
func gossipList(ctx context.Context, c *command.Call) error {
	rings, err := gossipKeyring(ctx, c, cluster.GossipKeyList, "")
	if err != nil {
		return err
	}

	return c.Show(rings, func() error {
		var rows command.Grid
		for _, key := range slices.Sorted(maps.Keys(rings.Keys)) {
			rows.AddRow(
				key,
				fmt.Sprintf("%d of %d", rings.Keys[key], rings.NumNodes),
				fmt.Sprint(rings.PrimaryKeys[key]),
			)
		}
		c.Table("Key|Servers|Encrypt with it", rows)
		printMessages(c, rings)
		return nil
	})
}

func changeGossip(ctx context.Context, c *command.Call, op cluster.GossipKeyOperation) error {
	key := c.Arg(0)
	if key == "-" {
		line, err := bufio.NewReader(io.LimitReader(c.In, cluster.MaxGossipKeyText+1)).ReadString('\n')
		if err != nil && err != io.EOF {
			return structs.Internalf("reading the key: %w", err)
		}
		key = strings.TrimRight(line, "\r\n")
	}

	c.Args = []string{"KEY"} // for the command that an error may name

	_, err := cluster.ParseGossipKey("<key>", key)
	if err != nil {
		return err
	}

	rings, err := gossipKeyring(ctx, c, op, key)
	if err != nil {
		return err
	}

	printMessages(c, rings)
	done := map[cluster.GossipKeyOperation]string{
		cluster.GossipKeyInstall: "have the key",
		cluster.GossipKeyUse:     "encrypt with the key",
		cluster.GossipKeyRemove:  "do not take the key any more",
	}

	return c.Report(command.Changed{"Servers": fmt.Sprint(rings.NumNodes)}, "%s %s",
		show.Plural(rings.NumNodes, "server"), done[op])
}

// gossipKeyring sends a request, for whose answer the agent asks every server.
func gossipKeyring(ctx context.Context, c *command.Call, op cluster.GossipKeyOperation, key string) (
	rings *cluster.GossipKeyrings, err error,
) {
	what := "the servers, which change their keys"
	if op == cluster.GossipKeyList {
		what = "the servers, which list their keys"
	}

	err = watch.New(c).Await(ctx, what, watch.SeeServers, func() (err error) {
		rings, err = operator.GossipKeyring(ctx, c.API, op, key)
		return err
	})

	return rings, err
}

// printMessages prints the warnings of servers.
func printMessages(c *command.Call, rings *cluster.GossipKeyrings) {
	for _, name := range slices.Sorted(maps.Keys(rings.Messages)) {
		c.Printf("%s: %s\n", name, rings.Messages[name])
	}
}

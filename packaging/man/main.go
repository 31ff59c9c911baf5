// Command man writes the manual pages of berth from its tree of commands: berth(1), and a page for each
// command of the first level, such as berth-job(1). Its only argument is the directory of the pages. The
// environment variable SOURCE_DATE_EPOCH has the seconds of their date.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"berth/agent/commands"
	"berth/cli"
	"berth/cli/command"
	"berth/internal/opsocket"
)

func main() {
	err := run(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func run(args []string, epoch string) error {
	if len(args) != 1 {
		return fmt.Errorf("%d arguments are given; expected the directory of the pages", len(args))
	}
	date, err := command.ManualDate(epoch)
	if err != nil {
		return err
	}
	err = os.MkdirAll(args[0], 0o755)
	if err != nil {
		return err
	}
	for name, page := range pages(date) {
		err = os.WriteFile(filepath.Join(args[0], name+".1"), page, 0o644)
		if err != nil {
			return err
		}
	}
	return nil
}

// pages returns the pages of a date by their names.
func pages(date string) map[string][]byte {
	tree := cli.Tree(commands.All()...)
	all := map[string][]byte{"berth": overview(tree, date)}
	for _, c := range tree {
		if c.Hidden || c.Same != "" {
			continue
		}
		var p command.ManualPage
		p.Begin("berth-"+c.Name, c.Synopsis, date)
		p.Describe("berth", c)
		p.SeeAlso("berth")
		all["berth-"+c.Name] = p.Bytes()
	}
	return all
}

// overview returns berth(1), which lists the commands.
func overview(tree []command.Command, date string) []byte {
	var p command.ManualPage
	p.Begin("berth", "a clustered control plane for CSI storage and the jobs that use it", date)
	p.Head("SYNOPSIS")
	p.Line(".B berth")
	p.Text("<command> [options] [arguments]")
	p.Head("COMMANDS")
	for _, c := range tree {
		switch {
		case c.Hidden:
		case c.Same != "":
			p.Item("berth "+c.Name, c.Synopsis+". The same as berth "+c.Same+".")
		default:
			p.Item("berth-"+c.Name+"(1)", c.Synopsis+".")
		}
	}
	p.Head("FILES")
	p.Item(opsocket.ConfigDir, "The configuration of the agent.")
	p.Item("/etc/default/berth", "Options of the agent and the join token, for its units of systemd.")
	p.Item(opsocket.DataDir, "The data of the agent.")
	p.Item(opsocket.Default, "The operator socket, over which root has the HTTP API.")
	p.Item(opsocket.OfServer, "The operator socket with berth-server.service, whose agent is not root.")
	p.Item("/usr/share/doc/berth/docs", "The documentation. Messages name its pages: docs/status.md.")
	p.Head("ENVIRONMENT")
	p.Item("BERTH_ADDR", "The address of the agent that commands call.")
	p.Item("BERTH_TOKEN", "The token of the caller, if the cluster has access control.")
	return p.Bytes()
}

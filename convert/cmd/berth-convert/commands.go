package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"

	"berth/cli/command"
	"berth/convert/compose"
	"berth/convert/nomad"
	"berth/convert/report"
	"berth/structs"
)

var commands = []command.Command{
	{
		Name:     "nomad",
		Synopsis: "Write the jobs, volumes and policies of a cluster as files, with a report",
		Help: `
Reads a running cluster of Nomad over its HTTP API, and changes nothing there.
The folder gets jobs/NAMESPACE/NAME.hcl, volumes/NAMESPACE/ID.hcl,
namespaces, policies, and a report (report.md, report.json): what runs as it
is, what runs with a warning, and what does not, with the remedy. A job that
a job file cannot have is a .json file.

The token needs the rights to list and read these objects in all namespaces.
-variables also writes the variables with their values, which are secrets.
Nobody but the user can read the files.`,
		Flags: append([]command.Flag{
			{Name: "address", Kind: command.String, Value: "url",
				Usage: "The address of an agent; default NOMAD_ADDR, or http://127.0.0.1:4646"},
			{Name: "token-file", Kind: command.String, Value: "file",
				Usage: "The file with the secret of a token; default NOMAD_TOKEN"},
			{Name: "variables", Usage: "Also read the variables, and write their values"},
			{Name: "out", Kind: command.String, Value: "folder", Usage: "The folder for the files"},
			{Name: "force", Usage: "Replace files of the folder"},
		}, tlsFlags...),
		Local: true,
		Run:   runNomad,
		Examples: "berth-convert nomad -out moved\n" +
			"berth-convert nomad -address https://nomad:4646 -token-file token -variables -out moved",
	},
	{
		Name:     "compose",
		Args:     "<file>",
		Synopsis: "Write the services of a compose file as a job file",
		Help: `
Writes the job file to the standard output, or to the file of -out, and to the
standard error what the job does not have. The same sentences are comments in
the job file. Variables of the compose file outside of environments have the
values of the environment of this command, as for docker compose. Variables
within environments, and values that look like secrets, are read by a template
from a variable of berth, and are not written into the job file.`,
		Flags: []command.Flag{
			{Name: "class", Kind: command.String, Value: "name", Default: compose.DefaultClass,
				Usage: "The class of the volumes"},
			{Name: "size", Kind: command.String, Value: "size", Default: "10GiB",
				Usage: "The size of each volume"},
			{Name: "out", Kind: command.String, Value: "file", Usage: "The job file"},
			{Name: "force", Usage: "Replace the file of -out"},
		},
		Local: true,
		Run:   runCompose,
		Examples: "berth-convert compose compose.yaml\n" +
			"berth-convert compose -class db -size 20GiB -out shop.hcl shop.yaml",
	},
	{
		Name:     "completion",
		Args:     "<shell>",
		Synopsis: "Print the completion script for bash, zsh or fish",
		Help: `
With the script the TAB key completes commands and options. The packages
install it. Otherwise store the script where the shell reads it at its start.`,
		Local:    true,
		Run:      command.PrintCompletion("berth-convert"),
		Examples: "source <(berth-convert completion bash)",
	},
}

// maxInput is the most bytes of a file that a user names.
const maxInput = 4 << 20

// readFile reads a file of a user, with a bound.
func readFile(name string) (text []byte, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, structs.Invalidf("%w", err)
	}
	defer command.CloseRead(file)
	text, err = io.ReadAll(io.LimitReader(file, maxInput+1))
	switch {
	case err != nil:
		return nil, structs.Invalidf("reading %s: %w", name, err)
	case len(text) > maxInput:
		return nil, structs.Invalidf("%s has more than %d bytes", name, maxInput)
	}
	return text, nil
}

func runNomad(ctx context.Context, c *command.Call) (err error) {
	if c.String("out") == "" {
		return command.BadUsage("-out is missing; expected the folder for the files")
	}
	o := nomad.Options{
		Address:   cmp.Or(c.String("address"), os.Getenv("NOMAD_ADDR"), "http://127.0.0.1:4646"),
		Token:     os.Getenv("NOMAD_TOKEN"),
		Variables: c.Bool("variables"),
	}
	if name := c.String("token-file"); name != "" {
		text, err := readFile(name)
		if err != nil {
			return err
		}
		o.Token = strings.TrimSpace(string(text))
	}
	o.TLS, err = tlsConfig(c)
	if err != nil {
		return err
	}

	folder, err := report.Open(c.String("out"), c.Bool("force"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	r, err := nomad.Migrate(ctx, o, folder)
	if err != nil {
		return err
	}
	c.Printf("%s\nThe reasons and remedies are in %s/report.md\n", r.Summary(), c.String("out"))
	return nil
}

func runCompose(ctx context.Context, c *command.Call) error {
	size, err := humanize.ParseBytes(c.String("size"))
	if err != nil || size < 1 || size > structs.MaxVolumeBytes {
		return command.BadUsage("-size is %q; expected a size such as 10GiB", c.String("size"))
	}
	src, err := readFile(c.Arg(0))
	if err != nil {
		return err
	}
	result, err := compose.Convert(ctx, c.Arg(0), src, compose.Options{
		Class: c.String("class"),
		Size:  int64(size),
		Env:   os.Environ(),
	})
	if err != nil {
		return err
	}

	err = writeJob(c, result.Text)
	if err != nil {
		return err
	}
	for _, note := range result.Notes {
		_, err = io.WriteString(c.Err, note+"\n")
		if err != nil {
			return structs.Invalidf("writing the notes: %w", err)
		}
	}
	return nil
}

// writeJob writes a job file. It replaces one only with -force, and then also its mode: a job file may have
// secrets.
func writeJob(c *command.Call, text []byte) error {
	name := c.String("out")
	if name == "" {
		_, err := c.Out.Write(text)
		return err
	}
	if c.Bool("force") {
		return replaceFile(name, text)
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, os.ErrExist):
		return structs.Conflictf("the file %s is there already; expected another one, or -force, which replaces it",
			name)
	case err != nil:
		return structs.Invalidf("%w", err)
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// replaceFile writes a file that nobody else may read in place of another one, if there is one.
func replaceFile(name string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".berth-convert-*") // its mode is 0600
	if err != nil {
		return structs.Invalidf("%w", err)
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(structs.Invalidf("%w", err), os.Remove(file.Name()))
	}
	return nil
}

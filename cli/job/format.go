package job

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"berth/cli/command"
	"berth/internal/conf"
	"berth/structs"
)

const formatHelp = `
Aligns and indents job files, volume files and the configuration of agents,
which are in HCL. A directory stands for its files with the ending .hcl or
.nomad; without a path it is the present one. "-" reads the standard input
and writes to the standard output. Only blanks change.

The command lists the files that have changed, or that would with -check or
-write=false. With both -list=false and one of these it shows their new
content instead. A file with a fault in its syntax stays as it is.

The exit code is 2 if a file has a fault, and 1 with -check if a file is not
in the canonical form.`

// FormatCommand formats files.
var FormatCommand = command.Command{
	Name:     "fmt",
	Args:     "[paths]...",
	Group:    command.GroupSelf,
	Synopsis: "Write job files and configurations in their canonical form",
	Help:     formatHelp,
	Flags: []command.Flag{
		{Name: "check", Usage: "Write nothing, and end with 1 if a file is not in the canonical form"},
		{Name: "list", Default: "true", Usage: "List the files that are not in the canonical form"},
		{Name: "recursive", Usage: "Also the files in the directories below"},
		{Name: "write", Default: "true", Usage: "Write the files"},
	},
	Local: true,
	Run:   runFormat,
	Examples: "berth fmt\n" +
		"berth fmt -check -recursive jobs\n" +
		"berth fmt - < web.hcl",
}

// fileEndings are the endings of the files that a directory stands for.
var fileEndings = []string{".hcl", ".nomad"}

// exitNotCanonical is the exit code of -check for a file in another form.
const exitNotCanonical = 1

// formatting is one run of the command.
type formatting struct {
	*command.Call
	others  bool // a file is not in the canonical form
	faults  hcl.Diagnostics
	sources map[string][]byte // the files with faults
}

func runFormat(_ context.Context, c *command.Call) error {
	files, err := filesToFormat(c)
	if err != nil {
		return err
	}

	f := &formatting{Call: c, sources: map[string][]byte{}}
	for _, name := range files {
		err := f.format(name)
		if err != nil {
			return err
		}
	}

	if f.faults.HasErrors() {
		return command.InFiles(f.sources, conf.Error(f.faults))
	}
	if f.others && c.Bool("check") {
		return command.ExitError(exitNotCanonical)
	}
	return nil
}

// format brings a file into its canonical form.
func (f *formatting) format(name string) error {
	src, err := f.ReadFile(name)
	if err != nil {
		return err
	}

	shown := command.ShownName(name)
	_, faults := conf.Parse(shown, src)
	if faults.HasErrors() {
		f.faults = append(f.faults, faults...)
		f.sources[shown] = src
		return nil
	}

	canonical := hclwrite.Format(src)
	differs := !bytes.Equal(src, canonical)
	f.others = f.others || differs
	writes := f.Bool("write") && !f.Bool("check")
	switch {
	case name == "-":
		_, err = f.Out.Write(canonical)
		return err
	case !differs:
		return nil
	case f.Bool("list"):
		f.Printf("%s\n", shown)
	case !writes:
		_, err = f.Out.Write(canonical)
	}
	if err == nil && writes {
		err = os.WriteFile(name, canonical, 0o600) // it keeps its mode
	}
	return err
}

// filesToFormat returns the files that the arguments stand for.
func filesToFormat(c *command.Call) (files []string, err error) {
	paths := c.Args
	if len(paths) == 0 {
		paths = []string{"."}
	}
	if slices.Contains(paths, "-") && len(paths) > 1 {
		return nil, command.BadUsage("- is the standard input; expected no other path beside it")
	}

	for _, path := range paths {
		found, err := filesBelow(path, c.Bool("recursive"))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

// filesBelow returns a file, or the files of a directory.
func filesBelow(path string, recursive bool) (files []string, err error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, structs.Invalidf("%w", err)
	}
	if !info.IsDir() {
		if !slices.Contains(fileEndings, filepath.Ext(path)) {
			return nil, structs.Invalidf("%s is no file in HCL by its name; expected the ending .hcl or .nomad", path)
		}
		return []string{path}, nil
	}

	err = filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("listing the files: %w", err)
		case entry.IsDir() && at != path && !recursive:
			return fs.SkipDir
		case entry.Type().IsRegular() && slices.Contains(fileEndings, filepath.Ext(at)):
			files = append(files, at)
		}
		return nil
	})
	return files, err
}

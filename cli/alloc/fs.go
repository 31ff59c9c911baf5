package alloc

import (
	"context"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"berth/api/allocs"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
	"berth/structs/nodecalls"
)

var filesFlags = slices.Concat(tailFlags[:len(tailFlags)-1], []command.Flag{
	{Name: "stat", Usage: "Describe the file or directory itself"},
	{Name: "H", Usage: "For programs: sizes in bytes and exact times"},
	{
		Name:  "verbose",
		Usage: "Show the types of contents, too. With -job: name the allocation on the standard error",
	},
})

const helpFiles = `The path is relative to the directory of the allocation. It has alloc, which
the tasks share, and a directory for each task. No path leads out of it, not
even through a link. Volumes and secrets are not shown. -f continues when the
file is truncated or replaced, and ends when the file is deleted or the
allocation ends.`

// allocFiles shows a directory or a file of an allocation. It waits for the node at each read, and with -f
// until it is interrupted.
func allocFiles(ctx context.Context, c *command.Call) error {
	p, err := placeOf(c)
	if err != nil {
		return err
	}

	reads := p.fromEnd || c.Bool("f")
	if c.Bool("stat") && reads {
		return command.BadUsage("-stat excludes -f, -tail, -n and -c")
	}

	id, err := chooseAlloc(ctx, c, "")
	if err != nil {
		return err
	}

	path := c.Arg(1)
	if path == "" {
		path = "/"
	}

	var file *nodecalls.AllocFileInfo
	err = watch.New(c).Await(ctx, NodeOf(id), watch.SeeAlloc(c, id), func() (err error) {
		file, err = allocs.StatFile(ctx, c.API, id, path)
		return err
	})

	switch {
	case err != nil:
		return err
	case c.Bool("stat"):
		return c.Show(file, func() error { return printFiles(c, file) })
	case !file.IsDir && (c.Bool("json") || c.String("t") != ""):
		return command.BadUsage(
			"-json and -t show a list, or a description with -stat; a file is written as it is",
		)
	case !file.IsDir:
		return showFile(ctx, c, fileOf{id, path}, p)
	case reads:
		return structs.Invalidf("%q is a directory; -f, -tail, -n and -c show a file", path)
	}

	return listFiles(ctx, c, fileOf{id, path})
}

// listFiles shows a directory of an allocation.
func listFiles(ctx context.Context, c *command.Call, dir fileOf) error {
	var files []*nodecalls.AllocFileInfo
	what := NodeOf(dir.alloc)
	err := watch.New(c).Await(ctx, what, watch.SeeAlloc(c, dir.alloc), func() (err error) {
		files, err = allocs.ListFiles(ctx, c.API, dir.alloc, dir.path)
		return err
	})
	if err != nil {
		return err
	}

	return c.Show(files, func() error { return printFiles(c, files...) })
}

// fileOf names a file of an allocation.
type fileOf struct{ alloc, path string }

// showFile writes the content of a file.
func showFile(ctx context.Context, c *command.Call, f fileOf, p place) error {
	follow := c.Bool("f")
	open := func(ctx context.Context) (io.ReadCloser, error) {
		if !follow && !p.fromEnd {
			return allocs.Cat(ctx, c.API, f.alloc, f.path)
		}
		return allocs.StreamFile(ctx, c.API, f.alloc, f.path, allocs.FileOptions{
			Follow:  follow,
			FromEnd: p.fromEnd,
			Offset:  p.offset,
			Lines:   p.lines,
		})
	}

	return copyStream(ctx, c, c.Out, allocStream{alloc: f.alloc, follow: follow, open: open})
}

// printFiles lists files.
func printFiles(c *command.Call, files ...*nodecalls.AllocFileInfo) error {
	var rows command.Grid
	for _, f := range files {
		name := f.Name
		size := humanize.IBytes(uint64(max(0, f.Size)))
		if f.IsDir { // its size says nothing to a user
			name += "/"
			size = ""
		}

		modified := f.ModTime.Local().Format(time.RFC3339)
		if c.Bool("H") {
			size = strconv.FormatInt(f.Size, 10)
			modified = f.ModTime.UTC().Format(time.RFC3339Nano)
		}

		kind := ""
		if c.Bool("verbose") {
			kind = f.ContentType
		}

		rows.AddRow(f.FileMode, size, modified, kind, name)
	}

	c.Table("Mode|Size|Modified Time|Content Type|Name", rows)
	return nil
}

package functions

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"golang.org/x/sys/unix"

	"berth/structs"
)

// Files are the files that the functions of a job file may read: those in the folder of the file, those in
// the allowed folders, the allowed files, and nothing outside to which a symbolic link leads. Without a
// folder there are none, because an agent reads none for its clients.
type Files struct {
	Dir     string
	Allowed []string // absolute paths
}

func (f Files) functions() map[string]function.Function {
	return map[string]function.Function{
		"abspath":    f.function(f.absolute, "path"),
		"basename":   stringFunction(pathPart(filepath.Base), "path"),
		"dirname":    stringFunction(pathPart(filepath.Dir), "path"),
		"file":       f.function(f.text, "path"),
		"filebase64": f.function(f.base64, "path"),
		"fileexists": f.function(f.exists, "path"),
		"fileset":    f.function(f.list, "path", "pattern"),
		"pathexpand": f.function(f.expand, "path"),
	}
}

var errNoFolder = errors.New("this function works in the command line only; " +
	"an agent does not read files for a job")

// function returns a function of strings that needs the folder of the job file.
func (f Files) function(call stringCall, names ...string) function.Function {
	return stringFunction(func(args []string) (cty.Value, error) {
		if f.Dir == "" {
			return cty.NilVal, errNoFolder
		}
		return call(args)
	}, names...)
}

type stringCall func(args []string) (cty.Value, error)

// stringFunction returns a function whose arguments are strings. The call returns a value of its own type.
func stringFunction(call stringCall, names ...string) function.Function {
	var params []function.Parameter
	for _, name := range names {
		params = append(params, function.Parameter{
			Name: name,
			Type: cty.String,
		})
	}
	return function.New(&function.Spec{
		Params: params,
		Type:   function.StaticReturnType(cty.DynamicPseudoType),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			var texts []string
			for _, a := range args {
				texts = append(texts, a.AsString())
			}
			return call(texts)
		},
	})
}

// absolute joins a path to the folder, also one that no function may read: it opens nothing.
func (f Files) absolute(args []string) (cty.Value, error) {
	name := args[0]
	if !filepath.IsAbs(name) {
		name = filepath.Join(f.Dir, name)
	}
	name, err := filepath.Abs(name)
	return cty.StringVal(name), err
}

// expand replaces ~ at the start of a path by the folder of the user.
func (Files) expand(args []string) (cty.Value, error) {
	rest, ok := strings.CutPrefix(args[0], "~")
	if !ok || rest != "" && rest[0] != '/' {
		return cty.StringVal(args[0]), nil
	}
	home, err := os.UserHomeDir()
	return cty.StringVal(home + rest), err
}

// pathPart makes a call of a function of package filepath.
func pathPart(part func(string) string) stringCall {
	return func(args []string) (cty.Value, error) {
		return cty.StringVal(part(args[0])), nil
	}
}

// open opens the folder through which the functions may read a path, and returns the path within it.
func (f Files) open(name string) (root *os.Root, within string, err error) {
	// The job's own folder comes first: the allowed paths decide only on what is outside of it.
	if filepath.IsLocal(name) || name == "." {
		root, err = os.OpenRoot(f.Dir)
		return root, name, err
	}

	full := name
	if !filepath.IsAbs(full) {
		full = filepath.Join(f.Dir, full)
	}

	full, err = filepath.Abs(full)
	if err != nil {
		return nil, "", err
	}

	for _, allowed := range f.Allowed {
		rest, err := filepath.Rel(allowed, full)
		if err != nil || !filepath.IsLocal(rest) {
			continue
		}
		return openAllowed(allowed, rest)
	}

	return nil, "", fmt.Errorf("%q is not in the folder of the job file; -allow-path allows a file or folder",
		structs.Cut(name, structs.MaxQuoted))
}

// openAllowed opens an allowed folder, or the folder of an allowed file.
func openAllowed(allowed, rest string) (root *os.Root, within string, err error) {
	info, err := os.Lstat(allowed)
	if err != nil {
		return nil, "", err
	}
	if info.IsDir() {
		root, err = os.OpenRoot(allowed)
		return root, rest, err
	}
	// A root is a folder. The rest of the path keeps the functions to the allowed file.
	root, err = os.OpenRoot(filepath.Dir(allowed))
	return root, filepath.Join(filepath.Base(allowed), rest), err
}

// read returns the content of a file.
func (f Files) read(name string) (content []byte, err error) {
	root, within, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer closeRead(root)

	file, err := root.OpenFile(within, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would block
	if err != nil {
		return nil, err
	}
	defer closeRead(file)

	info, err := file.Stat()
	if err != nil {
		return nil, err
	}

	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a file", name)
	}

	// The file may grow after its size was read, so the read itself is bounded.
	content, err = io.ReadAll(io.LimitReader(file, structs.MaxSource+1))
	if err == nil && len(content) > structs.MaxSource {
		err = fmt.Errorf("%q has more than %d bytes", name, structs.MaxSource)
	}

	return content, err
}

// closeRead closes a file that was only read. Its error loses no data.
func closeRead(f io.Closer) { _ = f.Close() }

// text reads a file as a text: a value of HCL is one in UTF-8.
func (f Files) text(args []string) (cty.Value, error) {
	content, err := f.read(args[0])
	if err == nil && !utf8.Valid(content) {
		err = fmt.Errorf("%q is not text in UTF-8; filebase64 reads any file", args[0])
	}
	return cty.StringVal(string(content)), err
}

// base64 reads a file of any content.
func (f Files) base64(args []string) (cty.Value, error) {
	content, err := f.read(args[0])
	return cty.StringVal(base64.StdEncoding.EncodeToString(content)), err
}

// exists reports whether a file is there. A folder is none, and a path that may not be read is an error.
func (f Files) exists(args []string) (cty.Value, error) {
	root, within, err := f.open(args[0])
	if err != nil {
		return cty.NilVal, err
	}
	defer closeRead(root)
	info, err := root.Stat(within)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cty.False, nil
	case err != nil:
		return cty.NilVal, err
	}
	return cty.BoolVal(info.Mode().IsRegular()), nil
}

// list returns the files below a folder that match a pattern, in which ** is any number of folders.
func (f Files) list(args []string) (cty.Value, error) {
	root, within, err := f.open(args[0])
	if err != nil {
		return cty.NilVal, err
	}
	defer closeRead(root)

	below, err := fs.Sub(root.FS(), path.Clean(within))
	if err != nil {
		return cty.NilVal, err
	}

	names, err := doublestar.Glob(below, path.Clean(args[1]), doublestar.WithFilesOnly())
	if err != nil {
		return cty.NilVal, err
	}

	found := []cty.Value{}
	for _, name := range names {
		found = append(found, cty.StringVal(name))
	}

	// The library makes an empty set only with the type of its elements.
	if len(found) == 0 {
		return cty.SetValEmpty(cty.String), nil
	}

	return cty.SetVal(found), nil
}

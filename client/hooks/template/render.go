package template

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"time"

	"berth/consul/lookup"
	"berth/internal/gotext"
	"berth/structs"
	"berth/structs/validate/taskfiles"
)

// The bounds of one rendering. A text comes from a user or a task, and runs in the agent.
const (
	maxTime   = 10 * time.Second
	maxSteps  = 100_000  // calls of functions and passes of loops
	maxDepth  = 100      // templates within one another
	maxValues = 64 << 20 // bytes of the results of functions, about
	maxLevels = 50       // of lists and maps within one another
)

// rendering is one execution of a text.
type rendering struct {
	ctx     context.Context
	values  *values
	reads   *reads
	files   map[string]string // that the text has read
	left    int               // bytes that it may still read
	set     *gotext.Set
	scratch *scratch
	answers map[lookup.Query]lookup.State // that the text has read
	waits   []string                      // for answers

	steps, depth, size int
}

// missingError is the error of a file that is not there yet.
type missingError struct{ path string }

func (e missingError) Error() string { return fmt.Sprintf("there is no file %q", e.path) }

// boundError is the error of a text beyond a bound.
type boundError string

func (e boundError) Error() string { return string(e) }

func beyond(format string, args ...any) error { return boundError(fmt.Sprintf(format, args...)) }

// render renders a template until ctx ends. The reads are complete up to an error.
func render(ctx context.Context, t *structs.Template, v *values, source string) (string, *reads, error) {
	r := &rendering{
		ctx:    ctx,
		values: v,
		reads:  newReads(t),
		files:  map[string]string{},
		left:   structs.MaxTemplateBytes,

		answers: map[lookup.Query]lookup.State{},
	}

	r.scratch = &scratch{r: r, values: map[string]any{}}
	text := t.EmbeddedTmpl
	if source != "" {
		var err error
		text, err = r.file(source)
		_, missing := errors.AsType[missingError](err)
		if missing {
			err = structs.Preconditionf("source: %v", err) // no missingError, for which Up would wait
		}
		if err != nil {
			return "", r.reads, err
		}
	}

	out, err := r.execute(t, text)
	return out, r.reads, err
}

// execute parses and runs a text. Its errors show no value of the text: see describe.
func (r *rendering) execute(t *structs.Template, text string) (string, error) {
	trees, err := taskfiles.ParseText(t, text)
	if err != nil {
		return "", err
	}

	r.set = gotext.New(gotext.Config{
		Functions:   r.functions(),
		Methods:     valueMethods,
		FailMissing: t.ErrMissingKey,
		ZeroMissing: true,
		Bounds:      r,
	}, trees)
	out, err := r.run("text", nil)
	bound, isBeyond := errors.AsType[boundError](err)
	_, missing := errors.AsType[missingError](err)
	switch {
	// A text beyond a bound fails, also if it waits for answers.
	case isBeyond:
		return "", structs.Invalidf("%s", bound)
	case len(r.waits) > 0: // the text had no values for its questions
		return "", waitError(r.waits)
	case err == nil || missing:
		return out, err
	}

	return "", structs.Invalidf("%s", structs.Cut(describe(err), structs.MaxText))
}

// run executes one of the texts.
func (r *rendering) run(name string, data any) (string, error) {
	out := &output{}
	err := r.set.Execute(out, name, data)
	return out.String(), err
}

// output is the rendered text, up to its bound.
type output struct{ strings.Builder }

func (o *output) Write(b []byte) (int, error) {
	if o.Len()+len(b) > structs.MaxTemplateBytes {
		return 0, structs.Invalidf("the rendered text has more than %d bytes", structs.MaxTemplateBytes)
	}
	return o.Builder.Write(b)
}

// Step counts a call of a function or a pass of a loop: a loop with an empty body would otherwise run on. It
// is also where a text ends whose time is over.
func (r *rendering) Step() error {
	r.steps++
	if r.steps > maxSteps {
		return beyond("the text takes more than %d steps", maxSteps)
	}
	if r.ctx.Err() != nil {
		return beyond("the text takes more than %s, or its task was stopped", maxTime)
	}
	return nil
}

// Enter and Leave count the templates within one another: one that calls itself would otherwise use up the
// stack, which ends the agent.
func (r *rendering) Enter() error {
	r.depth++
	if r.depth > maxDepth {
		return beyond("the text has templates in one another more than %d levels deep", maxDepth)
	}
	return r.Step()
}

// Leave ends a template.
func (r *rendering) Leave() { r.depth-- }

// chargeTimes counts n values of a size, before they are made.
func (r *rendering) chargeTimes(n, size int) error {
	// The product might not fit an int.
	if n > 0 && size > maxValues/n {
		return r.charge(maxValues + 1)
	}
	return r.charge(max(n, 0) * size)
}

// charge counts bytes of values.
func (r *rendering) charge(n int) error {
	r.size += n
	if n < 0 || r.size > maxValues {
		return beyond("the values of the text take more than %d bytes", maxValues)
	}
	return nil
}

// bound returns a function that counts its calls and the size of its results, and bounds its arguments. The
// function returns a value and an error.
func (r *rendering) bound(f any) any {
	v := reflect.ValueOf(f)
	fail := func(err error) []reflect.Value {
		return []reflect.Value{reflect.Zero(v.Type().Out(0)), reflect.ValueOf(&err).Elem()}
	}
	return reflect.MakeFunc(v.Type(), func(args []reflect.Value) []reflect.Value {
		err := r.Step()
		if err != nil {
			return fail(err)
		}

		err = boundArgs(args)
		if err != nil {
			return fail(err)
		}

		// MakeFunc hands over the last arguments of a variadic function as one list.
		invoke := v.Call
		if v.Type().IsVariadic() {
			invoke = v.CallSlice
		}

		out := invoke(args)
		n, ok := sizeOf(out[0], maxLevels)
		if !ok {
			return fail(beyond("a value nests lists and maps more than %d levels deep", maxLevels))
		}

		err = r.charge(n)
		if err != nil {
			return fail(err)
		}

		return out
	}).Interface()
}

// boundArgs bounds the arguments of a call together: a text may name a large value many times, and most
// functions take memory in proportion to their arguments.
func boundArgs(args []reflect.Value) error {
	total := 0
	for _, arg := range args {
		n, _ := sizeOf(arg, maxLevels+1) // of the list of a variadic function
		total += n
	}
	if total > maxValues {
		return beyond("the arguments of a function take more than %d bytes", maxValues)
	}
	return nil
}

// sizeOf estimates the bytes of a value. It reports false if the value nests lists and maps too deep. Values
// are trees: no function returns one that holds itself.
func sizeOf(v reflect.Value, levels int) (n int, ok bool) {
	const head = 16
	n = head
	add := func(part reflect.Value) bool {
		size, ok := sizeOf(part, levels-1)
		n += size
		return ok
	}

	switch v.Kind() {
	case reflect.String:
		return head + v.Len(), true
	case reflect.Interface:
		return sizeOf(v.Elem(), levels)
	case reflect.Pointer:
		if v.IsNil() || v.Type() == reflect.TypeFor[*scratch]() { // which holds all of the rendering
			return head, true
		}
		return sizeOf(v.Elem(), levels)

	case reflect.Struct:
		for i := range v.NumField() {
			if levels == 0 || !add(v.Field(i)) {
				return n, false
			}
		}

	case reflect.Slice:
		for i := range v.Len() {
			if levels == 0 || !add(v.Index(i)) {
				return n, false
			}
		}

	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			n += 2 * head
			if levels == 0 || !add(it.Key()) || !add(it.Value()) {
				return n, false
			}
		}
	}

	return n, true
}

// variable reads a variable.
func (r *rendering) variable(name string) (variable, error) {
	v, live := r.values.lookUp(name)
	if live {
		r.reads.Live[name] = v
	} else {
		r.reads.Fixed[name] = v
	}
	return v, r.checkReads()
}

// checkReads bounds the reads, because the record of the template has each of them.
func (r *rendering) checkReads() error {
	if r.reads.count() > structs.MaxTemplateReads {
		return beyond("the text reads more than %d variables, files, services and keys",
			structs.MaxTemplateReads)
	}
	return nil
}

// file reads a file. A text that reads it twice gets the same both times.
func (r *rendering) file(path string) (string, error) {
	if text, ok := r.files[path]; ok {
		return text, nil
	}
	text, err := r.values.dirs.ReadFile(path, r.left)
	// A failure has its digest, too: the text is rendered again when the file can be read.
	r.reads.Files[path] = digestOfFile(text, err)
	if errors.Is(err, fs.ErrNotExist) {
		return "", missingError{path}
	}
	if err == nil {
		err = r.checkReads()
	}
	r.left -= len(text)
	r.files[path] = text
	return text, err
}

package template

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/Masterminds/sprig/v3"

	"berth/internal/gotext"
	"berth/structs"
	"berth/structs/validate/taskfiles"
)

var library = sprig.TxtFuncMap()

// The functions of the library that others call.
var (
	compareSemver = library["semverCompare"].(func(_, _ string) (bool, error))
	splitN        = library["splitn"].(func(string, int, string) map[string]string)
	toStrings     = library["toStrings"].(func(any) []string)
	uniq          = library["mustUniq"].(func(any) ([]any, error))
	untilStep     = library["untilStep"].(func(_, _, _ int) []int)
	without       = library["mustWithout"].(func(any, ...any) ([]any, error))
)

// sprigFunctions returns the functions of the library sprig. They are the library's own if their arguments
// bound their memory and their time. The others charge their memory first.
func (r *rendering) sprigFunctions() gotext.Functions {
	bounded := r.boundedSprig()
	all := gotext.Functions{}
	for _, name := range taskfiles.SprigFunctions() {
		f := bounded[name]
		if f == nil {
			f = withError(library[name])
		}
		all["sprig_"+name] = f
	}
	return all
}

var errorType = reflect.TypeFor[error]()

// withError returns a function that returns a value and an error. A panic of a function of the library is
// its error: the call makes one of it.
func withError(f any) any {
	v := reflect.ValueOf(f)
	t := v.Type()
	if t.NumOut() == 2 {
		return f
	}

	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}

	out := []reflect.Type{t.Out(0), errorType}
	invoke := v.Call
	if t.IsVariadic() {
		invoke = v.CallSlice
	}

	withErr := reflect.FuncOf(in, out, t.IsVariadic())
	return reflect.MakeFunc(withErr, func(args []reflect.Value) []reflect.Value {
		return append(invoke(args), reflect.Zero(errorType))
	}).Interface()
}

// boundedSprig returns the functions in the place of those whose results may be much larger than their
// arguments.
func (r *rendering) boundedSprig() gotext.Functions {
	all := gotext.Functions{
		"fromJson":      func(s string) (any, error) { return r.fromJSON(s, false) },
		"indent":        func(n int, s string) (string, error) { return r.padLines("", n, s) },
		"join":          r.joinAny,
		"keys":          keys,
		"mustFromJson":  func(s string) (any, error) { return r.fromJSON(s, true) },
		"nindent":       func(n int, s string) (string, error) { return r.padLines("\n", n, s) },
		"repeat":        r.repeat,
		"replace":       r.replaceAll,
		"semverCompare": semverCompare,
		"seq":           r.sequence,
		"split":         func(sep, s string) (map[string]string, error) { return r.splitN(sep, -1, s) },
		"splitList":     r.splitList,
		"splitn":        r.splitN,
		"trimAll":       trimSet,
		"trimall":       trimSet,
		"until":         r.until,
		"untilStep":     r.untilStep,
		"values":        valuesOf,
	}

	for name, f := range map[string]any{
		"regexFind":       regexFind,
		"regexFindAll":    r.regexFindAll,
		"regexMatch":      regexMatch,
		"regexReplaceAll": func(p, s, to string) (string, error) { return r.regexReplaceAll(p, to, s) },
		"regexReplaceAllLiteral": func(p, s, to string) (string, error) {
			return r.regexReplaceAll(p, strings.ReplaceAll(to, "$", "$$"), s)
		},
		"regexSplit": r.regexSplit,
		"uniq":       r.uniq,
		"without":    r.without,
	} {
		// The library has two of each, of which one hides its error. Here both return it.
		all[name] = f
		all["must"+strings.ToUpper(name[:1])+name[1:]] = f
	}
	return all
}

// fromJSON returns nil for a text that is not JSON, or an error if it must be.
func (r *rendering) fromJSON(s string, must bool) (any, error) {
	err := r.chargeTimes(len(s), memoryOfJSON)
	if err != nil {
		return nil, err
	}
	var v any
	err = json.Unmarshal([]byte(s), &v)
	if !must {
		err = nil
	}
	return v, err
}

// padLines puts spaces before each line, also before an empty one.
func (r *rendering) padLines(before string, spaces int, s string) (string, error) {
	if spaces < 0 {
		return "", structs.Invalidf("indent: %d spaces", spaces)
	}
	err := r.chargeTimes(spaces, strings.Count(s, "\n")+1)
	if err != nil {
		return "", err
	}
	pad := strings.Repeat(" ", spaces)
	return before + pad + strings.ReplaceAll(s, "\n", "\n"+pad), nil
}

func (r *rendering) joinAny(separator string, list any) (string, error) {
	parts := toStrings(list)
	err := r.chargeTimes(len(parts), len(separator))
	if err != nil {
		return "", err
	}
	return strings.Join(parts, separator), nil
}

// keys returns the keys of maps in order; the library returns them in any.
func keys(all ...map[string]any) ([]string, error) {
	found := []string{}
	for _, m := range all {
		found = append(found, slices.Sorted(maps.Keys(m))...)
	}
	return found, nil
}

// valuesOf returns the values of a map in the order of their keys.
func valuesOf(m map[string]any) ([]any, error) {
	found := make([]any, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		found = append(found, m[key])
	}
	return found, nil
}

func (r *rendering) repeat(count int, s string) (string, error) {
	if count < 0 {
		return "", structs.Invalidf("repeat: %d times", count)
	}
	err := r.chargeTimes(count, len(s))
	if err != nil || s == "" {
		return "", err
	}
	return strings.Repeat(s, count), nil
}

func semverCompare(constraint, version string) (bool, error) {
	if len(constraint) > maxPattern || len(version) > maxPattern {
		return false, structs.Invalidf("a constraint or a version has more than %d bytes", maxPattern)
	}
	return compareSemver(constraint, version)
}

// memoryOfPart is the memory of one of the parts of a text, which refers to the text.
const memoryOfPart = 32

func (r *rendering) splitList(separator, s string) ([]string, error) {
	err := r.chargeTimes(strings.Count(s, separator)+1, memoryOfPart)
	if err != nil {
		return nil, err
	}
	return strings.Split(s, separator), nil
}

func (r *rendering) splitN(separator string, n int, s string) (map[string]string, error) {
	err := r.chargeTimes(strings.Count(s, separator)+1, 4*memoryOfPart) // it is in a list and in a map
	if err != nil {
		return nil, err
	}
	return splitN(separator, n, s), nil
}

// sequence returns the numbers from 1, or from the first argument, to the last one as a text. The second of
// three arguments is the step.
func (r *rendering) sequence(bounds ...int) (string, error) {
	var numbers [3]int // from, step, to
	switch len(bounds) {
	case 1:
		numbers = [3]int{1, 0, bounds[0]}
	case 2:
		numbers = [3]int{bounds[0], 0, bounds[1]}
	case 3:
		numbers = [3]int(bounds)
	default:
		return "", structs.Invalidf("seq takes one to three numbers")
	}

	direction := 1
	if numbers[2] < numbers[0] {
		direction = -1
	}

	if len(bounds) < 3 {
		numbers[1] = direction
	}

	// untilStep leaves its end out, and seq has it.
	list, err := r.untilStep(numbers[0], numbers[2]+direction, numbers[1])
	if err != nil {
		return "", err
	}

	return strings.Join(toStrings(list), " "), nil
}

func (r *rendering) until(count int) ([]int, error) {
	if count < 0 {
		return r.untilStep(0, count, -1)
	}
	return r.untilStep(0, count, 1)
}

func (r *rendering) untilStep(start, stop, step int) ([]int, error) {
	for _, n := range []int{start, stop, step} {
		if n < math.MinInt32 || n > math.MaxInt32 { // the sum of two would be another number
			return nil, structs.Invalidf("%d is beyond the numbers of a list: %d to %d", n, math.MinInt32,
				math.MaxInt32)
		}
	}
	if step == 0 {
		return []int{}, nil
	}
	err := r.chargeTimes((stop-start)/step+1, memoryOfPart)
	if err != nil {
		return nil, err
	}
	return untilStep(start, stop, step), nil
}

func regexFind(pattern, s string) (string, error) {
	re, err := compile(pattern)
	if err != nil {
		return "", err
	}
	return re.FindString(s), nil
}

func (r *rendering) regexFindAll(pattern, s string, n int) ([]string, error) {
	re, err := compile(pattern)
	if err == nil {
		// Each byte may begin an empty match, and so may the end.
		err = r.chargeTimes(len(s)+1, memoryOfPart)
	}
	if err != nil {
		return nil, err
	}
	return re.FindAllString(s, n), nil
}

func (r *rendering) regexSplit(pattern, s string, n int) ([]string, error) {
	re, err := compile(pattern)
	if err == nil {
		err = r.chargeTimes(len(s)+1, 2*memoryOfPart)
	}
	if err != nil {
		return nil, err
	}
	return re.Split(s, n), nil
}

// uniq compares each value with all before it. The charge bounds its time.
func (r *rendering) uniq(list any) ([]any, error) {
	err := r.chargePairs(list, list)
	if err != nil {
		return nil, err
	}
	return uniq(list)
}

func (r *rendering) without(list any, omit ...any) ([]any, error) {
	err := r.chargePairs(list, omit)
	if err != nil {
		return nil, err
	}
	return without(list, omit...)
}

// chargePairs charges the comparison of each value of two lists with each of the other.
func (r *rendering) chargePairs(a, b any) error {
	// sizeOf counts at least so many bytes for a value.
	const perByte = 16
	values, err := items(b)
	if err != nil {
		return err
	}
	n, _ := sizeOf(reflect.ValueOf(a), maxLevels)
	return r.chargeTimes(len(values), n/perByte)
}

// Package functions has the functions of job files, and the budget that bounds the evaluation of their
// expressions.
package functions

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/go-cty-funcs/cidr"
	"github.com/hashicorp/go-cty-funcs/crypto"
	"github.com/hashicorp/go-cty-funcs/encoding"
	"github.com/hashicorp/go-cty-funcs/uuid"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"go.yaml.in/yaml/v3"

	"berth/internal/rowfilter"
	"berth/structs"
)

// withoutFiles has the functions that read no files.
var withoutFiles = map[string]function.Function{
	"abs":             stdlib.AbsoluteFunc,
	"base64decode":    encoding.Base64DecodeFunc,
	"base64encode":    encoding.Base64EncodeFunc,
	"bcrypt":          crypto.BcryptFunc,
	"can":             tryfunc.CanFunc,
	"ceil":            stdlib.CeilFunc,
	"chomp":           stdlib.ChompFunc,
	"chunklist":       stdlib.ChunklistFunc,
	"cidrhost":        cidr.HostFunc,
	"cidrnetmask":     cidr.NetmaskFunc,
	"cidrsubnet":      cidr.SubnetFunc,
	"cidrsubnets":     cidr.SubnetsFunc,
	"coalesce":        stdlib.CoalesceFunc,
	"coalescelist":    stdlib.CoalesceListFunc,
	"compact":         stdlib.CompactFunc,
	"concat":          stdlib.ConcatFunc,
	"contains":        stdlib.ContainsFunc,
	"convert":         typeexpr.ConvertFunc,
	"csvdecode":       stdlib.CSVDecodeFunc,
	"distinct":        stdlib.DistinctFunc,
	"element":         stdlib.ElementFunc,
	"flatten":         stdlib.FlattenFunc,
	"floor":           stdlib.FloorFunc,
	"format":          stdlib.FormatFunc,
	"formatdate":      stdlib.FormatDateFunc,
	"formatlist":      stdlib.FormatListFunc,
	"indent":          stdlib.IndentFunc,
	"index":           stdlib.IndexFunc,
	"join":            stdlib.JoinFunc,
	"jsondecode":      stdlib.JSONDecodeFunc,
	"jsonencode":      stdlib.JSONEncodeFunc,
	"keys":            stdlib.KeysFunc,
	"length":          stdlib.LengthFunc,
	"log":             stdlib.LogFunc,
	"lookup":          stdlib.LookupFunc,
	"lower":           stdlib.LowerFunc,
	"max":             stdlib.MaxFunc,
	"md5":             crypto.Md5Func,
	"merge":           stdlib.MergeFunc,
	"min":             stdlib.MinFunc,
	"parseint":        stdlib.ParseIntFunc,
	"pow":             stdlib.PowFunc,
	"range":           stdlib.RangeFunc,
	"regex":           stdlib.RegexFunc,
	"regex_replace":   stdlib.RegexReplaceFunc,
	"regexall":        stdlib.RegexAllFunc,
	"replace":         stdlib.ReplaceFunc,
	"reverse":         reverse,
	"rsadecrypt":      rsaDecrypt,
	"setintersection": stdlib.SetIntersectionFunc,
	"setproduct":      stdlib.SetProductFunc,
	"setsubtract":     stdlib.SetSubtractFunc,
	"setunion":        stdlib.SetUnionFunc,
	"sha1":            crypto.Sha1Func,
	"sha256":          crypto.Sha256Func,
	"sha512":          crypto.Sha512Func,
	"signum":          stdlib.SignumFunc,
	"slice":           stdlib.SliceFunc,
	"sort":            stdlib.SortFunc,
	"split":           stdlib.SplitFunc,
	"strlen":          stdlib.StrlenFunc,
	"strrev":          stdlib.ReverseFunc,
	"substr":          stdlib.SubstrFunc,
	"timeadd":         stdlib.TimeAddFunc,
	"title":           stdlib.TitleFunc,
	"trim":            stdlib.TrimFunc,
	"trimprefix":      stdlib.TrimPrefixFunc,
	"trimspace":       stdlib.TrimSpaceFunc,
	"trimsuffix":      stdlib.TrimSuffixFunc,
	"try":             tryfunc.TryFunc,
	"upper":           stdlib.UpperFunc,
	"urlencode":       encoding.URLEncodeFunc,
	"uuidv4":          uuid.V4Func,
	"uuidv5":          uuid.V5Func,
	"values":          stdlib.ValuesFunc,
	"yamldecode":      yamlDecode,
	"yamlencode":      yamlEncode,
	"zipmap":          stdlib.ZipmapFunc,
}

// The costs of bcrypt at its default, and of one step of a regular expression as a share of a byte.
const (
	bcryptRounds = 10
	bcryptCost   = 4 << 20
	patternSteps = 16
)

// costs has the functions whose time or result may be more than a multiple of the sizes of their arguments,
// which are known and not null. A negative cost rejects the arguments.
var costs = map[string]func(args []cty.Value) int{
	"bcrypt":        bcryptWork,
	"distinct":      distinctWork,
	"format":        formatWork,
	"formatlist":    formatWork,
	"indent":        indentWork,
	"join":          joinWork,
	"jsondecode":    jsonWork,
	"parseint":      digitsWork,
	"regex":         patternWork,
	"regexall":      patternWork,
	"regex_replace": regexReplaceWork,
	"replace":       replaceWork,
	"rsadecrypt":    rsaWork,
	"setproduct":    productWork,
	"trim":          trimWork,
}

// Table returns the functions of one file, whose calls use its budget.
func (b *Budget) Table(readable Files) map[string]function.Function {
	// All files share the table, and each has a budget of its own.
	all := maps.Clone(withoutFiles)
	maps.Copy(all, readable.functions())
	for name, cost := range costs {
		all[name] = b.bound(all[name], cost)
	}
	return all
}

var errCost = errors.New("the arguments are too large")

// bound returns a function that takes its cost from the budget.
func (b *Budget) bound(f function.Function, cost func([]cty.Value) int) function.Function {
	return function.New(&function.Spec{
		Params:   f.Params(),
		VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			// The cost counts the sizes of values, so it waits until all are known.
			for _, a := range args {
				if !a.IsWhollyKnown() || a.IsNull() {
					return f.ReturnTypeForValues(args)
				}
			}

			n := cost(args)
			if n < 0 || !b.spend(n) {
				return cty.NilType, errCost
			}

			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return f.Call(args)
		},
	})
}

// textOf returns a string, "" for a value of another type.
func textOf(v cty.Value) string {
	if v.Type() != cty.String {
		return ""
	}
	return v.AsString()
}

// wholeOf returns a number from 0 to MaxEvaluation+1, 0 for a value of another type.
func wholeOf(v cty.Value) int {
	if v.Type() != cty.Number {
		return 0
	}
	// A number may be larger than any integer. The bound is above any budget.
	f, _ := v.AsBigFloat().Float64()
	return int(max(0, min(f, structs.MaxEvaluation+1)))
}

// lengthOf returns the number of elements, 0 for a value without elements.
func lengthOf(v cty.Value) int {
	if !v.CanIterateElements() {
		return 0
	}
	return v.LengthInt()
}

// bcryptWork doubles the cost with each round beyond the default. The library allows 31 at most.
func bcryptWork(args []cty.Value) int {
	rounds := bcryptRounds
	if len(args) > 1 {
		rounds = max(rounds, min(wholeOf(args[1]), 31))
	}
	return bcryptCost << (rounds - bcryptRounds)
}

var digits = regexp.MustCompile(`[0-9]+`)

// formatWork counts the widths of a format, for each of the elements that it formats.
func formatWork(args []cty.Value) int {
	each := 0
	for _, run := range digits.FindAllString(textOf(args[0]), -1) {
		n, err := strconv.Atoi(run)
		if err != nil {
			return -1
		}
		each = min(each+n, structs.MaxEvaluation+1)
	}
	elements := 1
	for _, a := range args {
		elements = max(elements, lengthOf(a))
		each += len(textOf(a))
	}
	return each * elements
}

// distinctWork counts the comparisons of each element with each other one.
func distinctWork(args []cty.Value) int {
	return lengthOf(args[0]) * valueSize(args[0], structs.MaxEvaluation) / valueCost
}

// indentWork counts the spaces before each line.
func indentWork(args []cty.Value) int {
	lines := 1 + strings.Count(textOf(args[1]), "\n")
	return wholeOf(args[0]) * lines
}

// digitsWork: the time of a conversion grows with the square of the digits.
func digitsWork(args []cty.Value) int {
	return len(textOf(args[0])) * len(textOf(args[0])) / valueCost
}

// trimWork counts the comparisons of characters.
func trimWork(args []cty.Value) int {
	return len(textOf(args[0])) * len(textOf(args[1])) / patternSteps
}

// joinWork counts the separators.
func joinWork(args []cty.Value) int {
	elements := 0
	for _, list := range args[1:] {
		elements += lengthOf(list)
	}
	return len(textOf(args[0])) * elements
}

// jsonWork rejects a text that nests too deep for a parser that recurses.
func jsonWork(args []cty.Value) int {
	text := textOf(args[0])
	if strings.Count(text, "[")+strings.Count(text, "{") > structs.MaxNesting && !json.Valid([]byte(text)) {
		return -1
	}
	return 0
}

// replaceWork counts the bytes that a replacement may add: in each place the third argument.
func replaceWork(args []cty.Value) int {
	return (1 + len(textOf(args[0]))) * len(textOf(args[2]))
}

// regexReplaceWork counts the steps, and the groups that a replacement repeats.
func regexReplaceWork(args []cty.Value) int {
	groups := strings.Count(textOf(args[2]), "$")
	steps := patternWork([]cty.Value{args[1], args[0]})
	return steps + replaceWork(args) + groups*len(textOf(args[0]))
}

// patternWork counts the steps of a regular expression. Each step is cheap.
func patternWork(args []cty.Value) int {
	size := rowfilter.PatternSize(textOf(args[0]))
	return valueCost*size + size*len(textOf(args[1]))/patternSteps
}

// productWork counts the elements of the result, each of which has a part of every set.
func productWork(args []cty.Value) int {
	n := valueCost
	for _, set := range args {
		n = min(n*max(1, lengthOf(set)), structs.MaxEvaluation+1)
	}
	return n * len(args)
}

// yamlDecode reads YAML. The library bounds the aliases, which repeat values.
var yamlDecode = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "src", Type: cty.String}},
	Type: func(args []cty.Value) (cty.Type, error) {
		text, err := yamlToJSON(args[0])
		if err != nil {
			return cty.NilType, err
		}
		return stdlib.JSONDecodeFunc.ReturnTypeForValues([]cty.Value{text})
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		text, err := yamlToJSON(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		return stdlib.JSONDecode(text)
	},
})

// yamlToJSON returns a YAML text as JSON. A text that is not known yet stays unknown.
func yamlToJSON(text cty.Value) (cty.Value, error) {
	if !text.IsKnown() {
		return text, nil
	}
	var v any
	err := yaml.Unmarshal([]byte(text.AsString()), &v)
	if err != nil {
		return cty.NilVal, err
	}
	b, err := json.Marshal(v)
	return cty.StringVal(string(b)), err
}

// yamlEncode writes what jsonencode would: the two have the same values.
var yamlEncode = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowNull: true}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		text, err := stdlib.JSONEncode(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		var v any // JSON is YAML, whose parser keeps whole numbers
		err = yaml.Unmarshal([]byte(text.AsString()), &v)
		if err != nil {
			return cty.NilVal, err
		}
		b, err := yaml.Marshal(v)
		return cty.StringVal(string(b)), err
	},
})

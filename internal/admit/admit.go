// Package admit compiles and evaluates the expressions of admission rules. They are in CEL, the Common
// Expression Language. An expression reads the object that is to be stored, and changes nothing. Its time and
// its memory are bounded by its cost, in the units of the language: about one for each step.
//
// ReadRules reads files of rules: blocks rule "name" in HCL, or the same in JSON.
package admit

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	lru "github.com/hashicorp/golang-lru/v2"

	"berth/structs"
	"berth/structs/admission"
)

// The bounds of evaluations, in units of cost.
const (
	// MaxCost is the most that one rule may cost for one object.
	MaxCost = 250_000
	// maxRequest is the most that all rules together may cost for a request.
	maxRequest = 10 * MaxCost
	// maxEstimate is the most that a rule may cost by the estimate when it is stored. See sizes.
	maxEstimate = 400 * MaxCost
)

// MaxTime bounds the evaluation of all rules of a request, besides their cost. The library searches what the
// loops have left behind at each step. So a loop over a list of 50,000 elements takes seconds within its
// cost.
const MaxTime = 10 * time.Second

// The bounds of compilation, beside the bound on the bytes of an expression.
const (
	maxDepth = 50   // of nested expressions
	maxNodes = 2000 // of the syntax tree
	maxRegex = 1000 // instructions of a regular expression
	keptRule = 2 * admission.MaxRules
)

// checkEach is the number of steps of a loop after which an evaluation looks whether its caller still waits.
const checkEach = 1000

// Caller is what an expression sees of the sender of a request. Without access control all is empty.
type Caller struct {
	Accessor   string   // of the token, "" for none
	Name       string   // of the token
	Policies   []string // the names of the policies that the token has, also by its roles
	Management bool     // it may do everything, and has no policies
}

// Input is an object to decide about. Object and Old are *structs.Job or *structs.CSIVolume.
type Input struct {
	On        string // admission.OnJob or admission.OnVolume
	Namespace string
	ID        string
	Object    any // as it is to be stored
	Old       any // as it is stored now; nil: it is new
	Caller    Caller
}

// OfJob returns the input for a job. old is nil for a new one.
func OfJob(job, old *structs.Job) Input {
	in := Input{
		On:        admission.OnJob,
		Namespace: job.Namespace,
		ID:        job.ID,
		Object:    job,
	}
	if old != nil {
		in.Old = old
	}
	return in
}

// OfVolume returns the input for a volume, without its secrets. old is nil for a new one.
func OfVolume(v, old *structs.CSIVolume) Input {
	in := Input{
		On:        admission.OnVolume,
		Namespace: v.Namespace,
		ID:        v.ID,
		Object:    v.Redacted(),
	}
	if old != nil {
		in.Old = old.Redacted()
	}
	return in
}

// Engine evaluates rules. It keeps their compiled expressions. It is safe for concurrent use.
type Engine struct {
	// The bounds of a request: MaxTime and maxRequest.
	maxTime time.Duration
	maxCost int64

	// By the object and the expression, and not by an index: a restored archive may have another expression
	// at the same index.
	compiled *lru.Cache[string, compiled]
}

// compiled is the outcome of a compilation. A fault is kept too: the rows do not change by themselves.
type compiled struct {
	program cel.Program
	fault   error
}

// New makes an engine.
func New() *Engine {
	cache, err := lru.New[string, compiled](keptRule)
	if err != nil {
		panic(err) // only a size below 1 is an error
	}
	return &Engine{
		maxTime:  MaxTime,
		maxCost:  maxRequest,
		compiled: cache,
	}
}

// environments have the names that expressions know, by the object. They are made at the first use: most
// commands and nodes need none.
var environments = map[string]func() (*cel.Env, error){
	admission.OnJob: sync.OnceValues(func() (*cel.Env, error) {
		return environment("job", reflect.TypeFor[structs.Job]())
	}),
	admission.OnVolume: sync.OnceValues(func() (*cel.Env, error) {
		return environment("volume", reflect.TypeFor[structs.CSIVolume]())
	}),
}

// environment has the functions and macros of the standard alone. Others, such as the replacement of texts,
// can make values whose size no cost counts.
func environment(variable string, object reflect.Type) (*cel.Env, error) {
	caller := reflect.TypeFor[Caller]()
	return cel.NewEnv(
		structTypes(object, caller),
		cel.Variable(variable, cel.ObjectType(typeName(object))),
		cel.Variable("old", cel.ObjectType(typeName(object))),
		cel.Variable("caller", cel.ObjectType(typeName(caller))),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(maxDepth),
		cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxRegex),
	)
}

// Check returns an error, of kind invalid, with the line and the column unless the expression of a rule
// compiles, has a yes or a no as its result, and is within the bound on its estimated cost.
func (e *Engine) Check(r *admission.Rule) error { return e.compile(r).fault }

func (e *Engine) compile(r *admission.Rule) compiled {
	key := r.On + " " + r.Expression
	known, ok := e.compiled.Get(key)
	if !ok {
		known.program, known.fault = compile(r)
		e.compiled.Add(key, known)
	}
	return known
}

// compile also turns a panic into an error: the library measures a regular expression with a repetition such
// as a{2} by a function that panics on it.
func compile(r *admission.Rule) (program cel.Program, err error) {
	defer func() {
		if recover() != nil {
			err = structs.Invalidf("the expression cannot be compiled; write a{2} in a regular expression as aa")
		}
	}()

	make := environments[r.On]
	if make == nil || len(r.Expression) > admission.MaxExpression {
		return nil, structs.Invalidf("it is not within the bounds of rules")
	}
	env, err := make()
	if err != nil {
		return nil, structs.Internalf("making the environment of expressions: %w", err)
	}

	tree, issues := env.Compile(r.Expression)
	if issues.Err() != nil {
		return nil, structs.Invalidf("%s", describe(issues))
	}
	if tree.OutputType() != types.BoolType {
		return nil, structs.Invalidf("the expression is of type %s; expected bool", tree.OutputType())
	}

	cost, err := env.EstimateCost(tree, sizes{})
	if err != nil {
		return nil, structs.Invalidf("estimating the cost: %w", err)
	}
	if cost.Max > maxEstimate {
		return nil, structs.Invalidf("the expression may cost more than %d steps for a large object; "+
			"use fewer loops within loops", uint64(maxEstimate))
	}

	return env.Program(tree,
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(MaxCost),
		cel.InterruptCheckFrequency(checkEach),
	)
}

// describe returns the faults of an expression with their places.
func describe(issues *cel.Issues) string {
	var lines []string
	for _, fault := range issues.Errors() {
		place := ""
		if fault.Location.Line() > 0 {
			place = fmt.Sprintf("line %d, column %d: ", fault.Location.Line(), fault.Location.Column()+1)
		}
		lines = append(lines, place+fault.Message)
	}
	return structs.Cut(strings.Join(lines, "; "), structs.MaxReason)
}

// sizes are the sizes that the estimate takes for parts of an object: of each list and map 100, of each text
// 256. The bounds of jobs multiplied would reject each loop within a loop. The cost of an evaluation is
// counted besides.
type sizes struct{}

// EstimateSize returns the size of a part of an object.
func (sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	most := uint64(100)
	kind := node.Type().Kind()
	if kind == types.StringKind || kind == types.BytesKind {
		most = 256
	}
	return &checker.SizeEstimate{Max: most}
}

// EstimateCallCost leaves the cost of functions to the library.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// Outcome is the result of one rule.
type Outcome struct {
	Holds bool
	Fault error // of the evaluation: then Holds is false
	Cost  uint64
}

// Evaluate evaluates a rule on an object. It does not look at the namespaces of the rule.
func (e *Engine) Evaluate(ctx context.Context, r *admission.Rule, in Input) Outcome {
	timed, cancel := e.timed(ctx)
	defer cancel()
	return e.evaluate(timed, r, in)
}

// timed returns a context for an evaluation, which ends at the bound on its time.
func (e *Engine) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, e.maxTime, fmt.Errorf("the rules take more than %s", e.maxTime))
}

func (e *Engine) evaluate(ctx context.Context, r *admission.Rule, in Input) Outcome {
	c := e.compile(r)
	if c.fault != nil {
		return Outcome{Fault: fmt.Errorf("the expression does not compile: %w", c.fault)}
	}

	result, details, err := c.program.ContextEval(ctx, map[string]any{
		in.On:    in.Object,
		"old":    in.Old,
		"caller": &in.Caller,
	})
	out := Outcome{Cost: costOf(details)}
	switch {
	case ctx.Err() != nil:
		out.Fault = structs.Timeoutf("the evaluation was ended: %w", context.Cause(ctx))
	case err != nil && out.Cost >= MaxCost:
		out.Fault = structs.Preconditionf("the evaluation costs more than %d steps", MaxCost)
	case err != nil:
		out.Fault = structs.Preconditionf("%s", reasonOf(err))
	default:
		out.Holds = result == types.True
	}
	return out
}

// plainReasons begin the errors of the library that tell names and types, and no value of an object. The
// stored object is not for each submitter to read.
var plainReasons = []string{
	"no such key", "no such overload", "no such attribute", "no matching overload", "index out of bounds",
	"division by zero", "modulus by zero", "integer overflow",
}

func reasonOf(err error) string {
	for _, plain := range plainReasons {
		if strings.HasPrefix(err.Error(), plain) {
			return structs.Cut(err.Error(), structs.MaxReason)
		}
	}
	return "a value of the object does not fit the expression"
}

func costOf(details *cel.EvalDetails) uint64 {
	if details == nil || details.ActualCost() == nil {
		return 0
	}
	return *details.ActualCost()
}

package taskfiles

import "slices"

// sprigPrefix begins the names of the functions of the library sprig, as in the dialect.
const sprigPrefix = "sprig_"

// sprigFunctions are the functions of sprig that a text may call: they do nothing but compute a value from
// their arguments, the same each time.
var sprigFunctions = []string{
	"abbrev", "abbrevboth", "add", "add1", "adler32sum", "all", "any", "append", "atoi", "b32dec", "b32enc",
	"b64dec", "b64enc", "base", "biggest", "camelcase", "cat", "ceil", "chunk", "clean", "coalesce",
	"compact",
	"concat", "contains", "deepEqual", "default", "dict", "dig", "dir", "div", "duration", "empty", "ext",
	"fail", "first", "float64", "floor", "fromJson", "get", "has", "hasKey", "hasPrefix", "hasSuffix",
	"hello",
	"indent", "initial", "initials", "int", "int64", "isAbs", "join", "kebabcase", "keys", "kindIs", "kindOf",
	"last", "list", "lower", "max", "maxf", "min", "minf", "mod", "mul", "mustAppend", "mustChunk",
	"mustCompact", "mustFirst", "mustFromJson", "mustHas", "mustInitial", "mustLast", "mustPrepend",
	"mustPush", "mustRegexFind", "mustRegexFindAll", "mustRegexMatch", "mustRegexReplaceAll",
	"mustRegexReplaceAllLiteral", "mustRegexSplit", "mustRest", "mustReverse", "mustSlice", "mustToJson",
	"mustToPrettyJson", "mustToRawJson", "mustUniq", "mustWithout", "nindent", "nospace", "omit", "osBase",
	"osClean", "osDir", "osExt", "osIsAbs", "pick", "pluck", "plural", "prepend", "push", "quote",
	"regexFind",
	"regexFindAll", "regexMatch", "regexQuoteMeta", "regexReplaceAll", "regexReplaceAllLiteral", "regexSplit",
	"repeat", "replace", "rest", "reverse", "round", "semverCompare", "seq", "sha1sum", "sha256sum",
	"sha512sum", "slice", "snakecase", "sortAlpha", "split", "splitList", "splitn", "squote", "sub", "substr",
	"swapcase", "ternary", "title", "toDecimal", "toJson", "toPrettyJson", "toRawJson", "toString",
	"toStrings", "trim", "trimAll", "trimPrefix", "trimSuffix", "trimall", "trunc", "tuple", "typeIs",
	"typeIsLike", "typeOf", "uniq", "until", "untilStep", "untitle", "upper", "urlJoin", "urlParse", "values",
	"without",
}

// rejectedSprigFunctions are the other functions of sprig, by the reason.
var rejectedSprigFunctions = map[string][]string{
	"it reads the clock or the time zone of the node; use timestamp": {
		"ago", "date", "dateInZone", "dateModify", "date_in_zone", "date_modify", "durationRound", "htmlDate",
		"htmlDateInZone", "mustDateModify", "mustToDate", "must_date_modify", "now", "toDate", "unixEpoch",
	},
	"it returns another value each time, and a text changes with its values alone": {
		"randAlpha", "randAlphaNum", "randAscii", "randBytes", "randInt", "randNumeric", "shuffle", "uuidv4",
	},
	"it reads the environment of the agent; use env": {"env", "expandenv"},
	"a template asks no name servers":                {"getHostByName"},
	"a template makes and uses no keys, certificates and hashes of passwords; use an artifact or a volume": {
		"bcrypt", "buildCustomCert", "decryptAES", "derivePassword", "encryptAES", "genCA", "genCAWithKey",
		"genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert",
		"genSignedCertWithKey", "htpasswd",
	},
	"a value does not change; use mergeMap, mergeMapWithOverride or scratch": {
		"deepCopy", "merge", "mergeOverwrite", "mustDeepCopy", "mustMerge", "mustMergeOverwrite", "set",
		"unset",
	},
	"use add, subtract, multiply and divide, which take fractions": {
		"add1f", "addf", "divf", "mulf", "subf",
	},
	"use sprig_semverCompare":               {"semver"},
	"its arguments do not bound the result": {"wrap", "wrapWith"},
}

// SprigFunctions lists the functions of sprig that a text may call, without the prefix.
func SprigFunctions() []string { return slices.Clone(sprigFunctions) }

// SprigRejection returns the reason for which a text may not call a function of sprig, "" if it may. The name
// has no prefix.
func SprigRejection(name string) string {
	if slices.Contains(sprigFunctions, name) {
		return ""
	}

	// Each function has one reason, so the order does not matter.
	for reason, names := range rejectedSprigFunctions {
		if slices.Contains(names, name) {
			return reason
		}
	}
	return "sprig has no such function"
}

package mixes

import (
	"regexp"
	"slices"
	"strings"
)

// ProfilesFile is the file that ProfileCommand writes.
const ProfilesFile = "profiles.csv"

// ProfileCommand is the command that measures the profiles of a mix, as a shell reads it.
func ProfileCommand(mix string, options ...string) string {
	words := slices.Concat([]string{"caserun", "profile", "--mix", mix}, options, []string{"--out", ProfilesFile})
	return shellLine(words...)
}

// plainWord is a word that shells take as it is.
var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellLine is a command as a shell reads it.
func shellLine(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; !plainWord.MatchString(w) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

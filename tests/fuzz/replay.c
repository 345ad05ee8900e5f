/*
 * replay FOLDER: gives a fuzz target every file of a folder, in the order of their names. So the
 * corpus is a test of every build, also where there is no libFuzzer.
 */
#include <dirent.h>

#include "fuzz.h"

static int is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void replay(const char *folder, const char *name)
{
    char path[4096];
    static uint8_t bytes[1 << 20];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    /* The last line names the input that ended the program. */
    printf("%s\n", name);
    fflush(stdout);
    FILE *file = fopen(path, "rb");
    require(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, size);
}

int main(int argc, char **argv)
{
    struct dirent **entries = NULL;
    int count = argc == 2 ? scandir(argv[1], &entries, is_input, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        replay(argv[1], entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    printf("%d inputs\n", count);
    return count > 0 ? 0 : 1;
}
